import assert from 'node:assert/strict'
import pg from 'pg'
import Cursor from 'pg-cursor'
import * as s from './scenario.mjs'

const client = new pg.Client(s.connection)
await client.connect()

await s.run('node-postgres', {
  'reads typed values': async () => s.checkRow((await client.query(s.types)).rows[0]),
  'reads masked columns of every kind of type': async () => s.checkMasked((await client.query(s.masked)).rows[0]),
  'reads masked columns in binary': async () => {
    const { rows: [row] } = await client.query({ text: 'select t, dom, a, i, ia, tz, yes, ip from masked.wide', binary: true })
    assert.deepEqual([row.t, row.dom, row.a, Number(row.i), row.ia, row.tz.toISOString(), row.yes, row.ip],
      ['a***@***', 'ad***t', ['hidden', null], 1200, [100, null, -100], '2026-08-01T00:00:00.000Z', true, null])
  },
  'runs a prepared statement a hundred times': async () => {
    for (let i = 0; i < 100; i++) {
      assert.equal((await client.query({ name: 'by-id', text: s.point, values: [7] })).rowCount, 1)
    }
  },
  'sees a refusal in a transaction with its SQLSTATE, DETAIL and HINT, and goes on after ROLLBACK': async () => {
    await client.query('begin')
    await client.query(s.point, [1])
    await s.refusal(() => client.query(s.refused))
    await assert.rejects(client.query('select 1'), { code: '25P02' })
    await client.query('rollback')
    assert.equal((await client.query('select 1 as one')).rows[0].one, 1)
  },
  'reads a big result, at once and by a cursor': async () => {
    assert.equal((await client.query(s.big)).rowCount, s.bigRows)
    const cursor = client.query(new Cursor(s.big))
    let n = 0
    for (let rows; (rows = await cursor.read(5000)).length > 0;) n += rows.length
    await cursor.close()
    assert.equal(n, s.bigRows)
  },
  'cancels': async () => {
    const other = new pg.Client(s.connection)
    await other.connect()
    const running = assert.rejects(other.query(s.slow), { code: '57014' })
    await new Promise((resolve) => setTimeout(resolve, 500))
    const canceler = new pg.Client(s.connection)
    canceler.on('error', () => {})
    await new Promise((resolve, reject) => {
      const c = canceler.connection
      canceler.on('end', resolve)
      c.on('error', reject)
      c.on('end', resolve)
      c.connect(s.connection.port, s.connection.host)
      const send = () => c.cancel(other.processID, other.secretKey)
      c.on('sslconnect', send)
      c.on('connect', () => (c.ssl ? c.requestSsl() : send()))
    })
    await running
    await other.end()
  },
  'pools connections': async () => {
    const pool = new pg.Pool({ ...s.connection, max: 5 })
    const all = await Promise.all(Array.from({ length: 50 }, (_, i) => pool.query(s.point, [i + 1])))
    assert.equal(all.reduce((n, r) => n + r.rowCount, 0), 50)
    await pool.end()
  },
})
