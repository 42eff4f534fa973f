require 'pg'

# Checks that ruby-pg works through the gateway.
CONNECTION = { host: ENV['INTERLOCK_PGHOST'], port: ENV['INTERLOCK_PGPORT'], dbname: ENV['INTERLOCK_SOURCE'], user: 'ana',
               password: ENV['INTERLOCK_KEY_ANA'], sslmode: 'verify-full', sslrootcert: ENV['PGSSLROOTCERT'] }.freeze
BIG = 'select id, customer_id, ordered_at, status, amount from sales.orders'
$failed = false

def check(what)
  yield
  puts "ok   ruby-pg: #{what}"
rescue StandardError => e
  $failed = true
  puts "FAIL ruby-pg: #{what}\n#{e.full_message}"
end

def equal(what, got, want)
  raise "#{what}: got #{got.inspect}, want #{want.inspect}" unless got == want
end

conn = PG.connect(CONNECTION)

check('reads typed values in text and in binary') do
  [0, 1].each do |format|
    row = conn.exec_params("select 9007199254740993::int8 as i, 'Zoë'::text as s, null::text as z, '\\x00ff27'::bytea as b", [], format)[0]
    equal('text, NULL', [row['s'].force_encoding('UTF-8'), row['z']], ['Zoë', nil])
    equal('int8', format == 0 ? row['i'].to_i : row['i'].unpack1('q>'), 9_007_199_254_740_993)
  end
end

check('reads masked columns of every kind of type, in text and in binary') do
  row = conn.exec('select t, dom, a, n, i, f, ia, d, tz, j, u, b, yes, ip from masked.wide').values[0]
  equal('text', row.map { |v| v&.sub('+00', '') },
        ['a***@***', 'ad***t', '{hidden,NULL}', '12300.00', '1200', '1200', '{100,NULL,-100}', '2026-08-01', '2026-08-01 00:00:00', '{"n":[1, 2],"token":null}',
         '00000000-0000-0000-0000-000000000000', '\x00', 't', nil])
  row = conn.exec_params('select t, i, f, d, tz, u, b, yes, ip from masked.wide', [], 1).values[0]
  equal('binary', [row[0], row[1].unpack1('q>'), row[2].unpack1('G'), row[3].unpack1('l>'), row[4].unpack1('q>'), row[5].unpack1('H*'), row[6], row[7], row[8]],
        ['a***@***', 1200, 1200.0, 9709, 9709 * 86_400_000_000, '0' * 32, "\0", "\1", nil])
end

check('runs a prepared statement a hundred times') do
  conn.prepare('by_id', 'select name from crm.customers where id = $1')
  100.times { equal('rows', conn.exec_prepared('by_id', [7]).ntuples, 1) }
end

check('sees a refusal in a transaction with its SQLSTATE, DETAIL and HINT, and goes on after ROLLBACK') do
  error = nil
  begin
    conn.transaction { |c| c.exec('select ssn from crm.customers') }
  rescue PG::InsufficientPrivilege => e
    error = e.result
  end
  equal('fields', [error.error_field(PG::PG_DIAG_SQLSTATE), error.error_field(PG::PG_DIAG_MESSAGE_DETAIL).nil?, error.error_field(PG::PG_DIAG_MESSAGE_HINT).nil?],
        ['42501', false, false])
  equal('after', conn.exec('select 1').getvalue(0, 0), '1')
end

check('reads a big result, at once and row by row') do
  equal('rows', conn.exec(BIG).ntuples, 120_000)
  conn.send_query(BIG)
  conn.set_single_row_mode
  n = 0
  while (r = conn.get_result)
    n += r.ntuples
  end
  equal('rows one by one', n, 120_000)
end

check('copies a query out') do
  lines = []
  conn.copy_data('copy (select id, name from crm.customers order by id limit 3) to stdout') do
    while (line = conn.get_copy_data)
      lines << line
    end
  end
  equal('lines', lines.length, 3)
end

check('cancels') do
  conn.send_query('select count(*) from sales.orders a, sales.orders b, sales.orders c')
  sleep 0.5
  conn.cancel
  begin
    conn.get_last_result
    raise 'not cancelled'
  rescue PG::QueryCanceled
  end
  equal('after', conn.exec('select 1').getvalue(0, 0), '1')
end

exit 1 if $failed
