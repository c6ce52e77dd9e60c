// amqplib as a consumer:
//
//     node consumer.js HOST PORT QUEUE PREFETCH MESSAGES each|64 BODY
//
// The figures are taken by the rule of figures.h.
'use strict';

const amqplib = require('amqplib');

function cpu() {
  const used = process.resourceUsage();
  return (used.userCPUTime + used.systemCPUTime) * 1e-6;
}

async function main() {
  const [host, port, queue, prefetch, total, mode, size] = process.argv.slice(2);
  if (size === undefined) throw new Error('HOST PORT QUEUE PREFETCH MESSAGES each|64 BODY');
  const messages = Number(total);
  const every = mode === 'each' ? 1 : Number(mode);
  const connection = await amqplib.connect(`amqp://guest:guest@${host}:${port}`, { noDelay: true });
  const channel = await connection.createChannel();
  await channel.prefetch(Number(prefetch));

  const first = Math.floor(messages / 10);
  let began = process.hrtime.bigint(), beganCpu = cpu();
  let seen = 0, unsettled = 0, bytes = 0, seconds = 0, used = 0;
  await new Promise((resolve, reject) => {
    connection.on('error', reject);
    channel.on('error', reject);
    channel.consume(queue, (message) => {
      if (message === null) return reject(new Error('cancelled'));
      bytes += message.content.length;
      ++seen;
      if (++unsettled === every || seen === messages) {
        channel.ack(message, every !== 1);
        unsettled = 0;
      }
      if (seen === first) {
        began = process.hrtime.bigint();
        beganCpu = cpu();
      }
      if (seen === messages) {
        seconds = Number(process.hrtime.bigint() - began) * 1e-9;
        used = cpu() - beganCpu;
        resolve();
      }
    }).catch(reject);
  });
  if (bytes !== messages * Number(size)) throw new Error(`${bytes} bytes came`);
  await channel.close();
  await connection.close();
  const measured = messages - first;
  console.log(JSON.stringify({
    client: `amqplib ${mode}`, messages: measured, seconds, rate: measured / seconds,
    cpu_us: used * 1e6 / measured, rss_kib: process.resourceUsage().maxRSS,
  }));
}

main().catch((error) => {
  console.error(`consumer.js: ${error.message}`);
  process.exit(1);
});
