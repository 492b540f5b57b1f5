// kafkajs against a broker, one scenario per run: `node client.js SCENARIO BOOTSTRAP TOPIC`. Prints one JSON document.

const { Kafka, Partitioners, logLevel } = require("kafkajs");

const [scenario, bootstrap, topic] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "conformance", brokers: [bootstrap], logLevel: logLevel.ERROR });
const producerOptions = { createPartitioner: Partitioners.DefaultPartitioner };

// Reads as a member of a group until `count` records are there.
async function readInGroup(groupId, count, { autoCommit = true } = {}) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 10000, heartbeatInterval: 500 });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const records = [];
  await new Promise((resolve, reject) => {
    consumer
      .run({
        autoCommit,
        eachMessage: async ({ partition, message }) => {
          const headers = Object.entries(message.headers ?? {}).map(([name, value]) => [name, value?.toString() ?? null]);
          records.push({
            partition,
            offset: message.offset,
            key: message.key?.toString() ?? null,
            value: message.value?.toString() ?? null,
            headers,
          });
          if (records.length >= count) resolve();
        },
      })
      .catch(reject);
  });
  await consumer.stop();
  await consumer.disconnect();
  return records;
}

async function send(producer, values) {
  await producer.send({ topic, messages: values.map((value) => ({ key: `key-${value}`, value })) });
}

const scenarios = {
  async administration() {
    const admin = kafka.admin();
    await admin.connect();
    await admin.createTopics({ topics: [{ topic, numPartitions: 3, configEntries: [{ name: "retention.ms", value: "60000" }] }] });
    await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] });
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    const described = await admin.describeConfigs({ resources: [{ type: 2, name: topic, configNames: ["retention.ms"] }] });
    await admin.deleteTopics({ topics: [topic] });
    const left = await admin.listTopics();
    await admin.disconnect();
    return {
      partitions: topics[0].partitions.length,
      retention: described.resources[0].configEntries[0].configValue,
      isGone: !left.includes(topic),
    };
  },

  async records() {
    const producer = kafka.producer(producerOptions);
    await producer.connect();
    await producer.send({
      topic,
      compression: 1, // gzip
      messages: [
        { key: "a", value: "one", headers: { origin: "javascript" } },
        { key: "b", value: null },
        { key: null, value: "three" },
      ],
    });
    await producer.disconnect();
    return readInGroup(`${topic}-records`, 3);
  },

  async committedOffsets() {
    const producer = kafka.producer({ ...producerOptions, idempotent: true });
    await producer.connect();
    await send(producer, ["1", "2", "3"]);
    const first = await readInGroup(`${topic}-offsets`, 3);
    await send(producer, ["4", "5"]);
    await producer.disconnect();
    const second = await readInGroup(`${topic}-offsets`, 2);
    const admin = kafka.admin();
    await admin.connect();
    const offsets = await admin.fetchOffsets({ groupId: `${topic}-offsets`, topics: [topic] });
    const { groups } = await admin.describeGroups([`${topic}-offsets`]);
    await admin.disconnect();
    const sum = offsets[0].partitions.reduce((total, { offset }) => total + Math.max(0, Number(offset)), 0);
    return { first: first.map((r) => r.value), second: second.map((r) => r.value), sum, state: groups[0].state };
  },

  async transactions() {
    const producer = kafka.producer({ ...producerOptions, idempotent: true, maxInFlightRequests: 1, transactionalId: `${topic}-tx` });
    await producer.connect();
    for (const [value, keep] of [["dropped", false], ["kept", true]]) {
      const transaction = await producer.transaction();
      await transaction.send({ topic, messages: [{ value }] });
      await transaction.sendOffsets({
        consumerGroupId: `${topic}-tx-group`,
        topics: [{ topic, partitions: [{ partition: 0, offset: keep ? "7" : "3" }] }],
      });
      await (keep ? transaction.commit() : transaction.abort());
    }
    await producer.disconnect();
    const seen = await readInGroup(`${topic}-reader`, 1);
    const admin = kafka.admin();
    await admin.connect();
    const offsets = await admin.fetchOffsets({ groupId: `${topic}-tx-group`, topics: [topic] });
    await admin.disconnect();
    return { seen: seen.map((r) => r.value), offset: offsets[0].partitions[0].offset };
  },
};

scenarios[scenario]().then(
  (found) => console.log(JSON.stringify(found)),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
