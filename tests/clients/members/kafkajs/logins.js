// Clients that log in, rightly and wrongly: logins.js CASES. The cases and the answers are described in tests/clients/logins.py.
'use strict'

const fs = require('node:fs')
const { Kafka, logLevel } = require('kafkajs')

function settings (each) {
  const found = { clientId: each.Name, brokers: [each.Bootstrap], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50, retries: 0 } }
  if (each.Ca) {
    found.ssl = { ca: [fs.readFileSync(each.Ca)] }
    if (each.Certificate) Object.assign(found.ssl, { cert: fs.readFileSync(each.Certificate), key: fs.readFileSync(each.Certificate) })
  }
  if (each.Mechanism === 'OAUTHBEARER') {
    found.sasl = { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: each.Token }) }
  } else if (each.Mechanism) {
    found.sasl = { mechanism: each.Mechanism.toLowerCase(), username: each.User, password: each.Password }
  }
  return found
}

async function play (each) {
  const kafka = new Kafka(settings(each))
  const producer = kafka.producer()
  await producer.connect()
  if (!each.Refused) {
    await producer.send({ topic: each.Topic, messages: [{ value: each.Name }] })
    const consumer = kafka.consumer({ groupId: each.Name, retry: { initialRetryTime: 50, retries: 100 } })
    await consumer.connect()
    await consumer.subscribe({ topics: [each.Topic], fromBeginning: true })
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      consumer.run({ eachMessage: async ({ message }) => { if (String(message.value) === each.Name) resolve() } })
    })
    await consumer.disconnect()
  }
  await producer.disconnect()
}

async function main () {
  await Promise.all(JSON.parse(fs.readFileSync(process.argv[2])).map(async each => {
    let outcome = 'ok'
    try {
      await play(each)
    } catch (error) {
      outcome = `${error}`.replaceAll('\n', ' ')
    }
    console.log(`${each.Name}\t${outcome}`)
  }))
  process.exit(0)
}

main()
