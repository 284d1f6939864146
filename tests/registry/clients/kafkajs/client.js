// @kafkajs/confluent-schema-registry: `node client.js URL` prints a line for each step that did what it should.
import assert from 'node:assert/strict'
import kafkajs from '@kafkajs/confluent-schema-registry'

const { COMPATIBILITY, SchemaRegistry, SchemaType } = kafkajs
const newRegistry = () => new SchemaRegistry({ host: process.argv[2], retry: { retries: 0 } })
const options = (subject) => ({ subject, compatibility: COMPATIBILITY.BACKWARD })

// Registers two versions, writes with both, reads both with a new client; a third one that does not fit is refused.
// The client asks for the compatibility of the subject first, and sets it only where there is none.
async function evolves(subject, versions, unfit) {
  const registry = newRegistry()
  const ids = []
  for (const { schema, value } of versions) {
    const { id } = await registry.register(schema, options(subject))
    ids.push(id)
    assert.equal((await registry.register(schema, options(subject))).id, id)
    const decoded = await newRegistry().decode(await registry.encode(id, value))
    assert.deepEqual(JSON.parse(JSON.stringify(decoded)), value)
  }
  assert.equal(new Set(ids).size, versions.length)
  assert.equal(await registry.getLatestSchemaId(subject), ids.at(-1))
  assert.equal(await registry.getRegistryId(subject, 1), ids[0])
  if (!unfit.references) assert.equal(await registry.getRegistryIdBySchema(subject, versions[0].schema), ids[0]) // the client forgets references
  await assert.rejects(registry.register(unfit, options(subject)), (error) => {
    assert.equal(error.status, 409)
    assert.match(error.message, /Schema being registered is incompatible with an earlier schema/)
    return true
  })
  console.log(`evolves ${subject}`)
}

const avro = (schema, references) => ({ type: SchemaType.AVRO, schema: JSON.stringify(schema), references })
const name = { name: 'name', type: 'string' }
const person = (...fields) => ({ type: 'record', name: 'Person', namespace: 'kafkajs', fields })
await evolves('kafkajs-avro', [
  { schema: avro(person(name)), value: { name: 'Ann' } },
  { schema: avro(person(name, { name: 'age', type: 'int', default: 7 })), value: { name: 'Bob', age: 8 } },
], avro(person({ name: 'name', type: 'int' })))

await newRegistry().register(avro({ type: 'record', name: 'Address', namespace: 'kafkajs', fields: [{ name: 'street', type: 'string' }] }), options('kafkajs-address'))
const references = [{ name: 'kafkajs.Address', subject: 'kafkajs-address', version: 1 }]
const resident = (...fields) => avro(person({ name: 'home', type: 'kafkajs.Address' }, ...fields), references)
await evolves('kafkajs-avro-reference', [
  { schema: resident(), value: { home: { street: 'Elm' } } },
  { schema: resident({ name: 'age', type: 'int', default: 7 }), value: { home: { street: 'Oak' }, age: 8 } },
], resident({ name: 'age', type: 'string' }))

const json = (properties) => ({ type: SchemaType.JSON, schema: JSON.stringify({ type: 'object', additionalProperties: false, properties }) })
await evolves('kafkajs-json', [
  { schema: json({ name: { type: 'string' } }), value: { name: 'Ann' } },
  { schema: json({ name: { type: 'string' }, age: { type: 'integer' } }), value: { name: 'Bob', age: 8 } },
], json({}))

await newRegistry().register({ type: SchemaType.PROTOBUF, schema: 'syntax = "proto3"; package kafkajs; message Street { string street = 1; }' }, options('kafkajs-street'))
const imported = [{ name: 'street.proto', subject: 'kafkajs-street', version: 1 }]
const proto = (fields) => ({ type: SchemaType.PROTOBUF, schema: `syntax = "proto3"; package kafkajs; import "street.proto"; message Person { ${fields} }`, references: imported })
await evolves('kafkajs-protobuf-reference', [
  { schema: proto('Street home = 1;'), value: { home: { street: 'Elm' } } },
  { schema: proto('Street home = 1; int32 age = 2;'), value: { home: { street: 'Oak' }, age: 8 } },
], proto('Street home = 1; string age = 2;'))

await assert.rejects(newRegistry().getLatestSchemaId('kafkajs-nothing'), (error) => error.status === 404)
await assert.rejects(newRegistry().register({ type: SchemaType.AVRO, schema: '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "nothing"}]}' }, options('kafkajs-bad')))
await assert.rejects(newRegistry().register(avro(person(name)), { subject: 'kafkajs-avro', compatibility: COMPATIBILITY.FULL }), /does not match the configuration/)
console.log('meets errors')
