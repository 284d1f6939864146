// Members of groups of kafkajs that do what standard input tells them: members.js BOOTSTRAP. The commands stand in
// tests/clients/group_members.py.
'use strict'

const readline = require('node:readline')
const { Kafka, PartitionAssigners, logLevel } = require('kafkajs')

const retry = { initialRetryTime: 50, maxRetryTime: 200, retries: 1000 }
const kafka = new Kafka({ clientId: 'kafkajs', brokers: [process.argv[2]], logLevel: logLevel.NOTHING, retry })

class Member {
  constructor () {
    this.owned = []
    this.lines = []
    this.positions = new Map()
  }

  async join (group, topics, settings) {
    this.consumer = kafka.consumer({
      groupId: group,
      partitionAssigners: [PartitionAssigners.roundRobin],
      sessionTimeout: Number(settings.session_ms),
      rebalanceTimeout: 5000, // a member that joined anew waits so long for what it was
      heartbeatInterval: 200,
      metadataMaxAge: 300,
      maxWaitTimeInMs: 100,
      retry
    })
    const { GROUP_JOIN, CRASH, REBALANCING, STOP } = this.consumer.events
    this.consumer.on(GROUP_JOIN, ({ payload }) => {
      this.owned = Object.entries(payload.memberAssignment).flatMap(([topic, numbers]) => numbers.map(number => `owns\t${topic}\t${number}`))
    })
    for (const event of [REBALANCING, STOP]) {
      this.consumer.on(event, () => {
        this.owned = []
        this.positions.clear()
      })
    }
    this.consumer.on(CRASH, ({ payload }) => this.lines.push(`trouble\t${payload.error}`))
    await this.consumer.connect()
    await this.consumer.subscribe({ topics: [topics.startsWith('^') ? new RegExp(topics) : topics], fromBeginning: true })
    this.consumer.run({
      autoCommit: false,
      eachMessage: async ({ topic, partition, message }) => {
        this.positions.set(`${topic}\t${partition}`, { topic, partition, offset: String(Number(message.offset) + 1) })
        this.lines.push(`read\t${topic}\t${partition}\t${message.offset}\t${message.value}`)
      }
    })
  }

  seen () {
    const lines = [...this.owned, ...this.lines]
    this.lines = []
    return lines
  }

  async commit () {
    await this.consumer.commitOffsets([...this.positions.values()])
  }

  async leave () {
    if (this.positions.size > 0) await this.commit()
    await this.consumer.disconnect()
  }
}

const members = new Map()

// What an administrator is told of a group; nothing when it is not among those that there are.
async function sees (admin, group) {
  if (!(await admin.listGroups()).groups.some(each => each.groupId === group)) return []
  const { groups: [found] } = await admin.describeGroups([group])
  const topics = await admin.fetchOffsets({ groupId: group })
  const offsets = topics.flatMap(({ topic, partitions }) => partitions.map(each => `${topic}\t${each.partition}\t${each.offset}`))
  return [`${found.state}\t${found.members.length}`, ...offsets]
}

async function administer (command, group, [topic, partition, offset]) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    if (command === 'sees') return await sees(admin, group)
    if (command === 'set') await admin.setOffsets({ groupId: group, topic, partitions: [{ partition: Number(partition), offset }] })
    if (command === 'delete') await admin.deleteGroups([group])
    return []
  } finally {
    await admin.disconnect()
  }
}

async function answer ([command, name, ...words]) {
  if (['sees', 'set', 'delete'].includes(command)) return await administer(command, name, words)
  if (command === 'join') {
    const [group, topics, ...settings] = words
    members.set(name, new Member())
    await members.get(name).join(group, topics, Object.fromEntries(settings.map(each => each.split('='))))
    return []
  }
  if (!['seen', 'commit', 'leave'].includes(command)) throw new Error(`no command: ${command}`)
  return await members.get(name)[command]() ?? []
}

async function main () {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let last = 'ok'
    try {
      for (const each of await answer(line.split('\t'))) console.log(each.replaceAll('\n', ' '))
    } catch (error) {
      last = `failed ${error}`.replaceAll('\n', ' ')
    }
    console.log(last)
  }
  process.exit(0)
}

main()
