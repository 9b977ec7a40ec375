// node-redis: node_redis.cjs PORT PASSWORD PROTOCOL; prints "ok" if everything came back as it must.
'use strict';
const assert = require('assert');
const { createClient, RESP_TYPES, WatchError } = require('redis');

const [port, password, protocol] = process.argv.slice(2);
const options = {
  socket: { host: '127.0.0.1', port: Number(port), reconnectStrategy: false },
  RESP: Number(protocol),
  name: 'node-redis',
  ...(password ? { password } : {}),
};

async function connect(more = {}) {
  const client = createClient({ ...options, ...more });
  client.on('error', () => {});  // each test sees it as a rejection
  await client.connect();
  return client;
}

async function strings(client) {
  assert.strictEqual(await client.ping(), 'PONG');
  assert.strictEqual(await client.clientGetName(), 'node-redis');
  assert.strictEqual(await client.set('a', '1', { EX: 100 }), 'OK');
  assert.strictEqual(await client.set('a', '2', { NX: true }), null);
  assert.strictEqual(await client.get('none'), null);
  assert.strictEqual(await client.incrBy('a', 41), 42);
  assert.strictEqual(await client.incrByFloat('a', 0.5), '42.5');
  assert.strictEqual(await client.mSet({ b: 'x', c: 'y' }), 'OK');
  assert.deepStrictEqual(await client.mGet(['b', 'none', 'c']), ['x', null, 'y']);
  assert.strictEqual(Number(await client.expire('b', 100)), 1);
  assert.ok(await client.ttl('b') > 0);
  assert.strictEqual(await client.exists(['b', 'c', 'd']), 2);
  assert.strictEqual(await client.del(['b', 'c']), 2);
  const bytes = Buffer.from(Array.from({ length: 1 << 20 }, (_, i) => (i * 7) & 255));
  await client.set('bytes', bytes);
  const typed = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  assert.ok(bytes.equals(await typed.get('bytes')));
  await assert.rejects(client.incr('bytes'), /^Error: ERR value is not an integer or out of range$/);
}

async function whatTheServerTells(client) {
  assert.match(await client.info('server'), /redis_mode:standalone\r\n/);
  const settings = await client.configGet('maxmemory-policy');
  assert.strictEqual(settings['maxmemory-policy'], 'noeviction');
  const hello = await client.hello(Number(protocol));
  assert.strictEqual(hello.proto, Number(protocol));
  assert.strictEqual(typeof hello.id, 'number');
  assert.strictEqual(hello.role, 'master');
  assert.strictEqual((await client.clientInfo()).name, 'node-redis');
  const [get] = await client.commandInfo(['get']);
  assert.strictEqual(get.arity, 2);
  assert.ok(await client.memoryUsage('bytes') > 1 << 20);
}

async function pipelines(client) {
  // Commands of one tick travel together.
  const results = await Promise.all(Array.from({ length: 5000 }, () => client.incr('n')));
  assert.deepStrictEqual(results, Array.from({ length: 5000 }, (_, i) => i + 1));
  assert.deepStrictEqual(await client.multi().set('m', '1').incr('m').get('m').exec(), ['OK', 2, '2']);
  assert.deepStrictEqual(await client.multi().set('m', '3').get('m').execAsPipeline(), ['OK', '3']);
}

async function watch(client) {
  const other = await connect();
  await client.watch('m');
  await other.set('m', '4');
  await assert.rejects(client.multi().set('m', '5').exec(), WatchError);
  assert.strictEqual(await other.get('m'), '4');
  await other.close();
}

async function scan(client) {
  await client.mSet(Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`scan:${i}`, '1'])));
  const keys = new Set();
  for await (const some of client.scanIterator({ MATCH: 'scan:*', COUNT: 100 })) {
    some.forEach((key) => keys.add(key));
  }
  assert.strictEqual(keys.size, 1000);
}

async function wrongPassword() {
  await assert.rejects(connect({ password: 'wrong' }), password ? /WRONGPASS/ : undefined);
}

async function main() {
  const client = await connect();
  await strings(client);
  await whatTheServerTells(client);
  await pipelines(client);
  await watch(client);
  await scan(client);
  if (password) {
    await wrongPassword();
  }
  await client.close();
  console.log('ok');
}

main().catch((error) => { console.error(error); process.exit(1); });
