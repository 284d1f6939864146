// @confluentinc/schemaregistry: `node client.js URL` prints a line for each step that did what it should.
import assert from 'node:assert/strict'
import { createFileRegistry, create, fromJson } from '@bufbuild/protobuf'
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt'
import confluent from '@confluentinc/schemaregistry'

const { AvroDeserializer, AvroSerializer, JsonDeserializer, JsonSerializer } = confluent
const { ProtobufDeserializer, ProtobufSerializer, SchemaRegistryClient, SerdeType } = confluent
const newClient = () => new SchemaRegistryClient({ baseURLs: [process.argv[2]] })
const latest = { useLatestVersion: true }
const idOf = (bytes) => Buffer.from(bytes).readInt32BE(1)

// Registers two versions, writes with both, reads both with the second; a third one that does not fit is refused with 409.
async function evolves(name, [Serializer, Deserializer], type, versions, unfit) {
  const client = newClient()
  const topic = `node-${name}`
  const subject = `${topic}-value`
  const written = []
  for (const { schema, value } of versions) {
    await client.register(subject, { schemaType: type, schema: JSON.stringify(schema) })
    written.push(await new Serializer(newClient(), SerdeType.VALUE, latest).serialize(topic, value))
  }
  assert.deepEqual(await client.getAllVersions(subject), [1, 2])
  assert.notEqual(idOf(written[0]), idOf(written[1]))
  const deserializer = new Deserializer(newClient(), SerdeType.VALUE, latest)
  for (const [index, { read }] of versions.entries()) {
    assert.deepEqual({ ...(await deserializer.deserialize(topic, written[index])) }, read)
  }
  const refused = { schemaType: type, schema: JSON.stringify(unfit) }
  assert.equal(await client.testSubjectCompatibility(subject, refused), false)
  await assert.rejects(client.register(subject, refused), (error) => {
    assert.equal(error.status, 409)
    assert.match(error.message, /Schema being registered is incompatible with an earlier schema/)
    return true
  })
  console.log(`evolves ${name}`)
}

const person = (...fields) => ({ type: 'record', name: 'Person', namespace: 'node', fields })
const name = { name: 'name', type: 'string' }
await evolves('avro', [AvroSerializer, AvroDeserializer], 'AVRO', [
  { schema: person(name), value: { name: 'Ann' }, read: { name: 'Ann', age: 7 } },
  { schema: person(name, { name: 'age', type: 'int', default: 7 }), value: { name: 'Bob', age: 8 }, read: { name: 'Bob', age: 8 } },
], person({ name: 'name', type: 'int' }))

const closed = (properties) => ({ type: 'object', title: 'Person', additionalProperties: false, properties })
await evolves('json', [JsonSerializer, JsonDeserializer], 'JSON', [
  { schema: closed({ name: { type: 'string' } }), value: { name: 'Ann' }, read: { name: 'Ann' } },
  { schema: closed({ name: { type: 'string' }, age: { type: 'integer' } }), value: { name: 'Bob', age: 8 }, read: { name: 'Bob', age: 8 } },
], closed({}))

// A message whose file imports another one: the serializer registers both, the second by reference.
const field = (name, number, type, more = {}) => ({ name, number, label: 'LABEL_OPTIONAL', type, ...more })
function files(...fields) {
  const address = { name: 'address.proto', package: 'node', syntax: 'proto3', messageType: [{ name: 'Address', field: [field('street', 1, 'TYPE_STRING')] }] }
  const person = { name: 'person.proto', package: 'node', syntax: 'proto3', dependency: ['address.proto'], messageType: [{ name: 'Other' }, { name: 'Person', field: fields }] }
  return createFileRegistry(fromJson(FileDescriptorSetSchema, { file: [address, person] }))
}
const home = field('home', 1, 'TYPE_MESSAGE', { typeName: '.node.Address' })
const first = files(home)
const second = files(home, field('age', 2, 'TYPE_INT32'))
const unfit = files(field('home', 1, 'TYPE_STRING'))
const message = (registry, more) => create(registry.getMessage('node.Person'), { home: create(registry.getMessage('node.Address'), { street: 'Elm' }), ...more })
async function write(registry, value) {
  const serializer = new ProtobufSerializer(newClient(), SerdeType.VALUE, { autoRegisterSchemas: true })
  serializer.registry.add(registry.getMessage('node.Person'))
  return serializer.serialize('node-protobuf', value)
}
const written = [await write(first, message(first)), await write(second, message(second, { age: 8 }))]
const client = newClient()
assert.deepEqual(await client.getAllVersions('node-protobuf-value'), [1, 2])
const registered = await client.getSchemaMetadata('node-protobuf-value', 1)
assert.deepEqual(registered.references, [{ name: 'address.proto', subject: 'address.proto', version: 1 }])
const reader = new ProtobufDeserializer(newClient(), SerdeType.VALUE, {})
assert.deepEqual((await Promise.all(written.map((each) => reader.deserialize('node-protobuf', each)))).map((each) => [each.home.street, each.age]), [['Elm', undefined], ['Elm', 8]])
await assert.rejects(write(unfit, create(unfit.getMessage('node.Person'), { home: 'x' })), (error) => error.status === 409 && /FIELD_KIND_CHANGED/.test(error.message))
console.log('evolves protobuf with a reference')

await assert.rejects(client.getLatestSchemaMetadata('node-nothing'), (error) => error.status === 404 && error.errorCode === 40401)
assert.equal(await client.updateCompatibility('node-avro-value', 'NONE'), 'NONE')
assert.equal(await client.getCompatibility('node-avro-value'), 'NONE')
assert.deepEqual(await client.deleteSubject('node-json-value'), [1, 2])
assert.deepEqual(await client.deleteSubject('node-json-value', true), [1, 2])
assert.ok(!(await client.getAllSubjects()).includes('node-json-value'))
console.log('asks for subjects and configurations')
