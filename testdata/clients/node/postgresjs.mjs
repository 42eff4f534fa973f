import assert from 'node:assert/strict'
import postgres from 'postgres'
import * as s from './scenario.mjs'

const sql = postgres({ ...s.connection, max: 3, onnotice: () => {} })

await s.run('postgres.js', {
  'reads typed values': async () => {
    const [row] = await sql.unsafe(s.types)
    // A NULL in an array of numbers becomes NaN in this client, on a direct connection too.
    s.checkRow({ ...row, a: row.a.map((v) => (v === null || Number.isNaN(v) ? null : Number(v))) })
  },
  'reads masked columns of every kind of type': async () => {
    const [row] = await sql.unsafe(s.masked)
    row.a = row.a.map((v) => (v === 'NULL' ? null : v)) // it reads that of a direct connection, too
    s.checkMasked(row, (v) => (v === null || Number.isNaN(v) ? null : Number(v)))
  },
  'runs a prepared statement a hundred times': async () => {
    for (let i = 0; i < 100; i++) {
      assert.equal((await sql`select name from crm.customers where id = ${7}`).length, 1)
    }
  },
  'sees a refusal in a transaction with its SQLSTATE, DETAIL and HINT, and goes on': async () => {
    await s.refusal(() => sql.begin(async (tx) => {
      await tx`select name from crm.customers where id = ${1}`
      await tx.unsafe(s.refused)
    }))
    assert.equal((await sql`select 1 as one`)[0].one, 1)
  },
  'reads a big result, at once and by a cursor': async () => {
    assert.equal((await sql.unsafe(s.big)).length, s.bigRows)
    let n = 0
    for await (const rows of sql.unsafe(s.big).cursor(5000)) n += rows.length
    assert.equal(n, s.bigRows)
  },
  'cancels': async () => {
    const query = sql.unsafe(s.slow)
    const running = assert.rejects(query, { code: '57014' })
    setTimeout(() => query.cancel(), 500)
    await running
  },
})
