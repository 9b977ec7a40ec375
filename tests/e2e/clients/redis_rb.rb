# redis-rb: redis_rb.rb PORT PASSWORD; prints "ok" if everything came back as it must.
require 'redis'

def must(holds, what)
  return if holds

  puts "failed: #{what}"
  exit 1
end

port, password = ARGV
options = { host: '127.0.0.1', port: port.to_i, timeout: 60, id: 'redis-rb' }
options[:password] = password unless password.empty?
redis = Redis.new(**options)

must redis.ping == 'PONG', 'ping'
must redis.set('a', '1', ex: 100) == 'OK', 'set'
must redis.set('a', '2', nx: true) == false, 'set nx'
must redis.incrby('a', 41) == 42, 'incrby'
must redis.incrbyfloat('a', 0.5) == 42.5, 'incrbyfloat'
must redis.ttl('a').positive?, 'ttl'
must redis.mset('b', 'x', 'c', "\0\xff".b) == 'OK', 'mset'
must redis.mget('b', 'none') == ['x', nil], 'mget'
must redis.get('c').b == "\0\xff".b, 'bytes'
must redis.mapped_mget('b', 'none') == { 'b' => 'x', 'none' => nil }, 'mapped_mget'
must redis.expire('b', 100) == true, 'expire'
must redis.exists('b', 'c', 'd') == 2, 'exists'
must redis.del('b', 'c') == 2, 'del'
redis.set('text', 'x')
begin
  redis.incr('text')
  must false, 'incr of a text'
rescue Redis::CommandError => e
  must e.message == 'ERR value is not an integer or out of range', 'its error'
end

results = redis.pipelined { |pipeline| 2000.times { pipeline.incr('n') } }
must results == (1..2000).to_a, 'pipeline'
results = redis.multi do |transaction|
  transaction.set('m', '1')
  transaction.incr('m')
  transaction.get('m')
end
must results == ['OK', 2, '2'], 'transaction'

other = Redis.new(**options)
result = redis.watch('m') do
  other.set('m', '5')
  redis.multi { |transaction| transaction.set('m', '6') }
end
must result.nil?, 'a transaction after a change'
must other.get('m') == '5', 'what others wrote'

redis.mapped_mset((0...1000).to_h { |i| ["scan:#{i}", '1'] })
must redis.scan_each(match: 'scan:*', count: 100).to_a.uniq.size == 1000, 'scan'
must redis.info['redis_mode'] == 'standalone', 'info'
must redis.info('keyspace')['db0'].start_with?('keys='), 'keyspace'
must redis.config(:get, 'maxmemory-policy') == { 'maxmemory-policy' => 'noeviction' }, 'config get'
must redis.call('CLIENT', 'SETNAME', 'redis-rb') == 'OK', 'client setname'
must redis.time.size == 2, 'time'
redis.close
puts 'ok'
