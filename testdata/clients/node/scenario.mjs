// What every client has to manage: the checks are the same for all, a client only says how it does them.
import { readFileSync } from 'node:fs'
import assert from 'node:assert/strict'

const env = (name) => process.env['INTERLOCK_' + name]

export const connection = {
  host: env('PGHOST'), port: Number(env('PGPORT')), database: env('SOURCE'), user: 'ana', password: env('KEY_ANA'),
  ssl: { ca: readFileSync(process.env.PGSSLROOTCERT), servername: 'localhost' },
}
export const types = `select 12345678901234567890.5::numeric as n, timestamptz '2026-01-02 03:04:05.678+00' as t, '\\x00ff27'::bytea as b,
  '{"a": [1, 2]}'::json as j, array[1, null, 3]::int[] as a, int4range(1, 5) as r, null::text as z,
  9007199254740993::int8 as i, 'Zoë'::text as s, true as yes`
export const masked = `select t, dom, a, n, i, f, ia, d, tz, j, u, b, yes, ip from masked.wide`
export const point = 'select name from crm.customers where id = $1'
export const big = 'select id, customer_id, ordered_at, status, amount from sales.orders'
export const bigRows = 120000
export const refused = 'select ssn from crm.customers'
export const slow = 'select count(*) from sales.orders a, sales.orders b, sales.orders c'

export function checkRow(row) {
  assert.equal(row.n, '12345678901234567890.5')
  assert.equal(row.t.toISOString(), '2026-01-02T03:04:05.678Z')
  assert.deepEqual([...row.b], [0, 255, 39])
  assert.deepEqual(row.j, { a: [1, 2] })
  assert.deepEqual(row.a, [1, null, 3])
  assert.equal(row.r, '[1,5)')
  assert.equal(row.z, null)
  assert.equal(row.i, '9007199254740993')
  assert.equal(row.s, 'Zoë')
  assert.equal(row.yes, true)
}

// checkMasked holds a row of masked against what its masks promise. numbers makes numbers of arrays' elements.
export function checkMasked(row, numbers = (v) => v) {
  assert.deepEqual([row.t, row.dom, row.a], ['a***@***', 'ad***t', ['hidden', null]])
  assert.deepEqual([Number(row.n), Number(row.i), row.f, row.ia.map(numbers)], [12300, 1200, 1200, [100, null, -100]])
  assert.match(row.d.toISOString(), /^2026-0(7-31|8-01)/) // midnight of some zone
  assert.equal(row.tz.toISOString(), '2026-08-01T00:00:00.000Z')
  assert.deepEqual(row.j, { token: null, n: [1, 2] })
  assert.deepEqual([row.u, [...row.b], row.yes, row.ip], ['00000000-0000-0000-0000-000000000000', [0], true, null])
}

export async function refusal(run) {
  const err = await run().then(() => null, (e) => e)
  assert.ok(err, 'not refused')
  const cause = err.code ? err : err.cause
  assert.equal(cause.code, '42501')
  assert.ok(cause.detail && cause.hint, 'no DETAIL or HINT')
}

// run runs the checks in order and says how each went. The exit status is 1 if any failed.
export async function run(client, checks) {
  let failed = false
  for (const [what, check] of Object.entries(checks)) {
    try {
      await check()
      console.log(`ok   ${client}: ${what}`)
    } catch (e) {
      failed = true
      console.log(`FAIL ${client}: ${what}\n${e.stack}\n${e.cause?.stack ?? ''}`)
    }
  }
  process.exit(failed ? 1 : 0)
}
