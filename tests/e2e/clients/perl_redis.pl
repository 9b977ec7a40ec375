# Redis.pm: perl_redis.pl PORT PASSWORD; prints "ok" if everything came back as it must.
use strict;
use warnings;
use Redis;

sub must {
    my ($holds, $what) = @_;
    return if $holds;
    print "failed: $what\n";
    exit 1;
}

my ($port, $password) = @ARGV;
my %options = (server => "127.0.0.1:$port", name => 'perl', read_timeout => 60);
$options{password} = $password if length $password;
my $redis = Redis->new(%options);

must($redis->ping eq 'PONG', 'ping');
must($redis->client_getname eq 'perl', 'client_getname');
must($redis->set('a', 1, 'EX', 100) eq 'OK', 'set');
must(!defined $redis->set('a', 2, 'NX'), 'set nx');
must($redis->incrby('a', 41) == 42, 'incrby');
must($redis->mset('b', 'x', 'c', "\0\xff") eq 'OK', 'mset');
my @values = $redis->mget('b', 'none', 'c');
must($values[0] eq 'x' && !defined $values[1] && $values[2] eq "\0\xff", 'mget');
must($redis->del('b', 'c') == 2, 'del');
$redis->set('text', 'x');
eval { $redis->incr('text') };
must($@ =~ /ERR value is not an integer or out of range/, 'incr of a text');

my $sum = 0;
$redis->incr('n', sub { $sum += $_[0] }) for 1 .. 2000;
$redis->wait_all_responses;
must($sum == 2000 * 2001 / 2, 'pipeline');

$redis->multi;
$redis->set('m', 1);
$redis->incr('m');
my @results = $redis->exec;
must($results[0] eq 'OK' && $results[1] == 2, 'transaction');
my $other = Redis->new(%options);
$redis->watch('m');
$other->set('m', 5);
$redis->multi;
$redis->set('m', 6);
$redis->exec;
must($other->get('m') == 5, 'what others wrote');

$redis->mset(map { ("scan:$_", 1) } 0 .. 999);
my ($cursor, $keys, %found) = (0);
do {
    ($cursor, $keys) = $redis->scan($cursor, 'MATCH', 'scan:*', 'COUNT', 100);
    @found{@$keys} = ();
} while ($cursor);
must(keys %found == 1000, 'scan');
my $info = $redis->info;
must($info->{redis_mode} eq 'standalone' && $info->{role} eq 'master', 'info');
$redis->quit;
print "ok\n";
