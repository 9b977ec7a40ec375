<?php
// php-redis (phpredis): php_redis.php PORT PASSWORD; prints "ok" if everything came back as it must.
declare(strict_types=1);

function must(bool $holds, string $what): void
{
    if (!$holds) {
        echo "failed: $what\n";
        exit(1);
    }
}

function connect(int $port, string $password): Redis
{
    $redis = new Redis();
    must($redis->connect('127.0.0.1', $port, 60.0), 'connect');
    must($password === '' || $redis->auth($password), 'auth');
    return $redis;
}

[, $port, $password] = $argv;
$redis = connect((int)$port, $password);

must($redis->ping('hello') === 'hello', 'ping');
must($redis->set('a', '1', ['ex' => 100]) === true, 'set');
must($redis->set('a', '2', ['nx']) === false, 'set nx');
must($redis->incrBy('a', 41) === 42, 'incrby');
must($redis->ttl('a') > 0, 'ttl');
must($redis->mset(['b' => 'x', 'c' => "\0\xff"]) === true, 'mset');
must($redis->mget(['b', 'none', 'c']) === ['x', false, "\0\xff"], 'mget');
must($redis->get('none') === false, 'get none');
must($redis->append('b', 'yz') === 3, 'append');
must($redis->exists(['b', 'c', 'd']) === 2, 'exists');
must($redis->type('b') === Redis::REDIS_STRING, 'type');
must($redis->del(['b', 'c']) === 2, 'del');
must($redis->incr('text') === 1 && $redis->append('text', 'x') === 2, 'text');
must($redis->incr('text') === false, 'incr of a text');
// It adds a blank to errors where it expected a number.
must(rtrim($redis->getLastError()) === 'ERR value is not an integer or out of range', 'its error');

$redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
must($redis->set('object', ['list' => [1, 2.5, null]]), 'serialized set');
must($redis->get('object') === ['list' => [1, 2.5, null]], 'serialized get');
$redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_NONE);

$pipeline = $redis->pipeline();
for ($i = 0; $i < 2000; ++$i) {
    $pipeline->incr('n');
}
must($pipeline->exec() === range(1, 2000), 'pipeline');
must($redis->multi()->set('m', '1')->incr('m')->get('m')->exec() === [true, 2, '2'], 'transaction');
$other = connect((int)$port, $password);
$redis->watch('m');
$other->set('m', '5');
must($redis->multi()->set('m', '6')->exec() === false, 'a transaction after a change');
must($other->get('m') === '5', 'what others wrote');

for ($i = 0; $i < 1000; ++$i) {
    $names["scan:$i"] = '1';
}
must($redis->mset($names), 'mset of many');
$redis->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
$found = [];
$cursor = null;
while (($keys = $redis->scan($cursor, 'scan:*', 100)) !== false) {
    $found = array_merge($found, $keys);
}
must(count(array_unique($found)) === 1000, 'scan');

$info = $redis->info();
must($info['redis_mode'] === 'standalone' && $info['role'] === 'master', 'info');
must($redis->config('GET', 'maxmemory-policy') === ['maxmemory-policy' => 'noeviction'], 'config get');
must($redis->client('setname', 'php-redis') && $redis->client('getname') === 'php-redis', 'client');
must($redis->close(), 'close');
echo "ok\n";
