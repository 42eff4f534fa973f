// Prints what the introspection of node's ORMs tells of a database: inspect.mjs URL, with PGPASSWORD.
import 'reflect-metadata'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import knexModule from 'knex'
import pg from 'pg'
import { Kysely, PostgresDialect } from 'kysely'
import { Sequelize } from 'sequelize'
import { DataSource } from 'typeorm'

const url = new URL(process.argv[2])
const direct = url.searchParams.get('sslmode') === 'disable'
const connection = {
  host: url.hostname, port: Number(url.port), database: url.pathname.slice(1), user: url.username, password: process.env.PGPASSWORD,
  options: url.searchParams.get('options') ?? undefined,
  ssl: direct ? false : { ca: readFileSync(url.searchParams.get('sslrootcert'), 'utf8'), servername: 'localhost' },
}
let failed = false

async function print(what, ask) {
  try {
    console.log(`== ${what}\n${JSON.stringify(await ask(), null, 1)}`)
  } catch (e) {
    failed = true
    console.log(`FAIL ${what}: ${e.stderr || e.stdout || e.message}`)
  }
}

const kysely = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool(connection) }) })
await print('Kysely schemas', () => kysely.introspection.getSchemas())
await print('Kysely tables', () => kysely.introspection.getTables())
const tables = await kysely.introspection.getTables()
await kysely.destroy()

const knex = knexModule({ client: 'pg', connection, pool: { min: 0, max: 1 } })
for (const t of tables) {
  await print(`Knex columns of ${t.schema}.${t.name}`, () => knex(t.name).withSchema(t.schema).columnInfo())
  await print(`Knex has ${t.schema}.${t.name}`, () => knex.schema.withSchema(t.schema).hasTable(t.name))
}
await knex.destroy()

const sequelize = new Sequelize(connection.database, connection.user, connection.password, {
  host: connection.host, port: connection.port, dialect: 'postgres', logging: false, dialectOptions: { ssl: connection.ssl, options: connection.options },
})
const queries = sequelize.getQueryInterface()
await print('Sequelize schemas', () => queries.showAllSchemas())
await print('Sequelize tables', () => queries.showAllTables())
for (const t of tables) {
  const table = { tableName: t.name, schema: t.schema }
  await print(`Sequelize describes ${t.schema}.${t.name}`, () => queries.describeTable(table))
  await print(`Sequelize indexes of ${t.schema}.${t.name}`, () => queries.showIndex(table))
  await print(`Sequelize references of ${t.schema}.${t.name}`, () => queries.getForeignKeyReferencesForTable(table))
  await print(`Sequelize constraints of ${t.schema}.${t.name}`, () => queries.showConstraint(table))
}
await sequelize.close()

const source = new DataSource({
  type: 'postgres', host: connection.host, port: connection.port, database: connection.database, username: connection.user,
  password: connection.password, ssl: connection.ssl, extra: { options: connection.options }, installExtensions: false,
})
await source.initialize()
const runner = source.createQueryRunner()
await print('TypeORM tables', () => runner.getTables(tables.filter((t) => !t.isView).map((t) => `${t.schema}.${t.name}`)))
await print('TypeORM views', () => runner.getViews(tables.filter((t) => t.isView).map((t) => `${t.schema}.${t.name}`)))
await print('TypeORM schemas', () => runner.getSchemas())
await runner.release()
await source.destroy()

await print('Drizzle', () => {
  const out = mkdtempSync(join(tmpdir(), 'drizzle-'))
  try {
    const config = join(out, 'drizzle.config.js')
    writeFileSync(config, 'export default ' + JSON.stringify({
      dialect: 'postgresql', out, schemaFilter: [...new Set(tables.map((t) => t.schema))],
      dbCredentials: direct ? { url: url.href } : connection,
    }))
    execFileSync('node', ['node/node_modules/drizzle-kit/bin.cjs', 'introspect', '--config', config], { stdio: 'pipe' })
    return readFileSync(join(out, 'schema.ts'), 'utf8').split('\n')
  } finally {
    rmSync(out, { recursive: true })
  }
})
process.exit(failed ? 1 : 0)
