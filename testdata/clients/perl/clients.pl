use strict;
use warnings;
use DBI;
use DBD::Pg qw(:async);

# Checks that DBD::Pg works through the gateway.
my $dsn = "dbi:Pg:host=$ENV{INTERLOCK_PGHOST};port=$ENV{INTERLOCK_PGPORT};dbname=$ENV{INTERLOCK_SOURCE};sslmode=verify-full;sslrootcert=$ENV{PGSSLROOTCERT}";
my $failed = 0;

sub connection { DBI->connect($dsn, 'ana', $ENV{INTERLOCK_KEY_ANA}, { RaiseError => 1, PrintError => 0, AutoCommit => 1, pg_enable_utf8 => 1 }) }

sub check {
    my ($what, $do) = @_;
    if (eval { $do->(); 1 }) { print "ok   DBD::Pg: $what\n" }
    else { $failed = 1; print "FAIL DBD::Pg: $what\n$@\n" }
}

sub equal {
    my ($what, $got, $want) = @_;
    die "$what: got " . ($got // 'undef') . ", want " . ($want // 'undef') . "\n" if ($got // 'undef') ne ($want // 'undef');
}

my $db = connection();

check('reads typed values', sub {
    my ($n, $t, $j, $z, $i) = $db->selectrow_array(q{select 12345678901234567890.5::numeric, timestamptz '2026-01-02 03:04:05.678+00' at time zone 'UTC',
        '{"a": [1, 2]}'::json, null::text, 9007199254740993::int8});
    equal('numeric', $n, '12345678901234567890.5');
    equal('timestamp', $t, '2026-01-02 03:04:05.678');
    equal('json', $j, '{"a": [1, 2]}');
    equal('NULL', $z, undef);
    equal('int8', $i, '9007199254740993');
});

check('reads masked columns of every kind of type', sub {
    my @row = $db->selectrow_array('select t, dom, a, n, i, f, ia, d, tz, j, u, b, yes, ip from masked.wide');
    my @want = ('a***@***', 'ad***t', undef, '12300.00', '1200', '1200', undef, '2026-08-01', '2026-08-01 00:00:00+00', '{"n":[1, 2],"token":null}',
        '00000000-0000-0000-0000-000000000000', "\0", 1, undef);
    equal('text[]', join('|', map { $_ // 'NULL' } @{ $row[2] }), 'hidden|NULL');
    equal('int[]', join('|', map { $_ // 'NULL' } @{ $row[6] }), '100|NULL|-100');
    for my $i (0 .. $#want) { equal("column $i", $row[$i], $want[$i]) unless ref $row[$i] }
});

check('runs a prepared statement a hundred times', sub {
    my $st = $db->prepare('select name from crm.customers where id = ?');
    for (1 .. 100) { $st->execute(7); equal('rows', scalar @{ $st->fetchall_arrayref }, 1) }
});

check('sees a refusal in a transaction with its SQLSTATE, and goes on after ROLLBACK', sub {
    $db->begin_work;
    $db->do('select name from crm.customers where id = 1');
    eval { $db->selectall_arrayref('select ssn from crm.customers') };
    equal('SQLSTATE', $db->state, '42501');
    equal('DETAIL and HINT', ($@ =~ /DETAIL:/ && $@ =~ /HINT:/) ? 1 : 0, 1);
    $db->rollback;
    equal('after', ($db->selectrow_array('select 1'))[0], 1);
});

check('reads a big result', sub {
    equal('rows', scalar @{ $db->selectall_arrayref('select id, customer_id, ordered_at, status, amount from sales.orders') }, 120000);
});

check('cancels', sub {
    my $other = connection();
    $other->do('select count(*) from sales.orders a, sales.orders b, sales.orders c', { pg_async => PG_ASYNC });
    sleep 1;
    $other->pg_cancel;
    equal('after', ($other->selectrow_array('select 1'))[0], 1);
});

exit $failed;
