import assert from 'node:assert/strict'
import knexModule from 'knex'
import pg from 'pg'
import { drizzle } from 'drizzle-orm/node-postgres'
import { eq, sql } from 'drizzle-orm'
import { integer, pgSchema, text } from 'drizzle-orm/pg-core'
import * as s from './scenario.mjs'

const knex = knexModule({ client: 'pg', connection: s.connection, pool: { min: 0, max: 3 } })
const pool = new pg.Pool(s.connection)
const db = drizzle(pool)
const customers = pgSchema('crm').table('customers', { id: integer('id'), name: text('name'), region: text('region'), ssn: text('ssn') })

await s.run('Knex and Drizzle', {
  'Knex builds and runs a query': async () => {
    const rows = await knex('crm.customers').select('region').count('* as n').where('id', '<', 500).groupBy('region')
    assert.equal(rows.length, 3)
  },
  'Knex sees a refusal in a transaction, and goes on': async () => {
    await s.refusal(() => knex.transaction(async (tx) => {
      await tx('crm.customers').select('name').where('id', 1)
      await tx('crm.customers').select('ssn')
    }))
    assert.equal((await knex('crm.customers').select('id').limit(1)).length, 1)
  },
  'Knex looks tables and columns up': async () => {
    assert.equal(await knex.schema.withSchema('crm').hasTable('customers'), true)
    assert.equal(await knex.schema.withSchema('hr').hasTable('salaries'), false)
    const columns = Object.keys(await knex('customers').withSchema('crm').columnInfo())
    assert.ok(columns.includes('name') && !columns.includes('ssn'))
  },
  'Drizzle builds and runs a query': async () => {
    const rows = await db.select({ name: customers.name, n: sql`1` }).from(customers).where(eq(customers.id, 7))
    assert.equal(rows.length, 1)
  },
  'Drizzle sees a refusal in a transaction, and goes on': async () => {
    await s.refusal(() => db.transaction(async (tx) => {
      await tx.select({ ssn: customers.ssn }).from(customers)
    }))
    assert.equal((await db.select({ id: customers.id }).from(customers).limit(1)).length, 1)
  },
})
