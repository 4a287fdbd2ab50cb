//! A fault injector: scripts that fail after any of their writes.

use duly::__internal::redis::scripts;

use crate::servers::Redis;

/// Commands that write.
const WRITES: &str = "local writes = {HSET=1, HDEL=1, ZADD=1, ZREM=1, RPUSH=1, LPUSH=1, LTRIM=1, \
    LSET=1, LINSERT=1, XADD=1, XTRIM=1, HINCRBY=1, ZREMRANGEBYRANK=1, \
    LREM=1, SADD=1} local left \
    local function counted(command, ...) if writes[command] then left = left - 1 if left < 0 then \
    redis.call('DEL', 'fault') error('a fault') end end return redis.call(command, ...) end\n";

/// Puts scripts onto a server that fail once, after so many writes as the key `fault` says.
pub(crate) fn load(server: &Redis) {
    for script in scripts() {
        let (header, text) = script.library().split_once('\n').expect("a header");
        let text = text.replace("unpack_from = redis.call,", "unpack_from = counted,");
        let text = text.replace(
            "ARGV = arguments\n",
            "ARGV = arguments\nleft = tonumber(redis.call('GET', 'fault') or 1000)\n",
        );
        let library = format!("{header}\n{WRITES}{text}");
        server.cli(&["FUNCTION", "LOAD", "REPLACE", &library]);
    }
}
