// ioredis: ioredis.cjs PORT PASSWORD; prints "ok" if everything came back as it must.
'use strict';
const assert = require('assert');
const Redis = require('ioredis');

const [port, password] = process.argv.slice(2);
const options = {
  host: '127.0.0.1', port: Number(port), connectionName: 'ioredis', retryStrategy: null,
  ...(password ? { password } : {}),
};

// It is ready when it has read INFO and found that the server does not load.
function connect(more = {}) {
  return new Promise((resolve, reject) => {
    const client = new Redis({ ...options, ...more });
    client.once('ready', () => resolve(client));
    client.once('error', reject);
  });
}

async function strings(client) {
  assert.strictEqual(await client.client('GETNAME'), 'ioredis');
  assert.strictEqual(await client.set('a', '1', 'EX', 100), 'OK');
  assert.strictEqual(await client.set('a', '2', 'NX'), null);
  assert.strictEqual(await client.incrby('a', 41), 42);
  assert.strictEqual(await client.mset({ b: 'x', c: 'y' }), 'OK');
  assert.deepStrictEqual(await client.mget('b', 'none', 'c'), ['x', null, 'y']);
  assert.ok(await client.pttl('a') > 0);
  assert.strictEqual(await client.del('b', 'c'), 2);
  const bytes = Buffer.from(Array.from({ length: 1 << 20 }, (_, i) => (i * 7) & 255));
  await client.set('bytes', bytes);
  assert.ok(bytes.equals(await client.getBuffer('bytes')));
  await assert.rejects(client.incr('bytes'), /^ReplyError: ERR value is not an integer or out of range$/);
  assert.match(await client.info(), /\r\nloading:0\r\n/);
  assert.deepStrictEqual(await client.config('GET', 'maxmemory-policy'), ['maxmemory-policy', 'noeviction']);
}

async function pipelines(client) {
  const pipeline = client.pipeline();
  for (let i = 0; i < 5000; ++i) {
    pipeline.incr('n');
  }
  assert.deepStrictEqual(await pipeline.exec(), Array.from({ length: 5000 }, (_, i) => [null, i + 1]));
  const results = await client.multi().set('m', 'word').incr('m').get('m').exec();
  assert.deepStrictEqual(results[0], [null, 'OK']);
  assert.match(results[1][0].message, /^ERR value is not an integer/);
  assert.deepStrictEqual(results[2], [null, 'word']);
  const together = await connect({ enableAutoPipelining: true });
  assert.deepStrictEqual(await Promise.all([together.set('p', '1'), together.incr('p')]), ['OK', 2]);
  await together.quit();
}

async function watch(client) {
  const other = await connect();
  await client.watch('m');
  await other.set('m', '4');
  assert.strictEqual(await client.multi().set('m', '5').exec(), null);
  assert.strictEqual(await other.get('m'), '4');
  await other.quit();
}

async function scan(client) {
  await client.mset(Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`scan:${i}`, '1'])));
  const keys = new Set();
  for await (const some of client.scanStream({ match: 'scan:*', count: 100 })) {
    some.forEach((key) => keys.add(key));
  }
  assert.strictEqual(keys.size, 1000);
}

async function main() {
  const client = await connect();
  await strings(client);
  await pipelines(client);
  await watch(client);
  await scan(client);
  if (password) {
    await assert.rejects(connect({ password: 'wrong' }), /WRONGPASS/);
  }
  assert.strictEqual(await client.quit(), 'OK');
  console.log('ok');
}

main().catch((error) => { console.error(error); process.exit(1); });
