//! The scripts of the shared state in a Redis.

use std::sync::LazyLock;

use duly::__server::redis::ClientScript;

/// A script, whose keys and arguments are locals by their names, in the order in which a call has
/// them. What a call has beyond them begins at `more_keys` and at `more`.
macro_rules! script {
    ($head:literal, [$($key:ident),+], [$($argument:ident),+], $body:literal $(,)?) => {
        ClientScript::new(concat!(
            $head,
            "local ", stringify!($($key),+), " = unpack(KEYS, 1, 8)\n",
            "local ", stringify!($($argument),+), " = unpack(ARGV, 1, 8)\n",
            "local more_keys = 1 + #{", $("'", stringify!($key), "', ",)+ "}\n",
            "local more = 1 + #{", $("'", stringify!($argument), "', ",)+ "}\n",
            $body
        ))
    };
}

/// A script that may call `raise`, which gives a version a number that none has had: by the time of its
/// Redis, so that it differs from those that a Redis had which is back with older data.
macro_rules! raising {
    ([$($key:ident),+], [$($argument:ident),+], $body:literal $(,)?) => {
        script!(
            "local function raise(version)
               local now = redis.call('TIME')
               local next = tonumber(redis.call('GET', version) or '0') + 1
               next = math.max(next, tonumber(now[1]) * 1e6 + tonumber(now[2]))
               redis.call('SET', version, string.format('%.0f', next))
             end\n",
            [$($key),+],
            [$($argument),+],
            $body
        )
    };
}

/// Calls a command on a hash with each so many words of the further arguments, and raises the version,
/// if there is one. Returns the sum of the replies.
pub(super) static CHANGE: LazyLock<ClientScript> = LazyLock::new(|| {
    raising!(
        [hash, version],
        [command, words],
        "local changed = 0
         for at = more, #ARGV, tonumber(words) do
           changed = changed + redis.call(command, hash, unpack(ARGV, at, at + words - 1))
         end
         if version then raise(version) end
         return changed",
    )
});

/// Removes a token, and what is kept of it in further tables, unless a row is given and its row is
/// another one, and raises the version. Returns how many tokens are gone.
pub(super) static REMOVE_TOKEN: LazyLock<ClientScript> = LazyLock::new(|| {
    raising!(
        [tokens, version],
        [token, row],
        "if row and redis.call('HGET', tokens, token) ~= row then return 0 end
         raise(version)
         for at = more_keys, #KEYS do redis.call('HDEL', KEYS[at], token) end
         return redis.call('HDEL', tokens, token)",
    )
});

/// Takes one of the calls in a window of so many ms that begins with its first call; returns
/// when the window ends, or 0 and how many ms are left of a window in which there is none. It runs
/// on a server whose memory is full, which consumers drain: it needs a few bytes, until the window
/// ends.
pub(super) static TAKE: LazyLock<ClientScript> = LazyLock::new(|| {
    script!(
        "#!lua flags=allow-oom\n",
        [counter],
        [calls, window_ms],
        "local taken = tonumber(redis.call('GET', counter) or '0')
         if taken >= tonumber(calls) then
           return {0, math.max(redis.call('PTTL', counter), 1)}
         end
         redis.call('INCR', counter)
         if redis.call('PTTL', counter) < 0 then redis.call('PEXPIRE', counter, window_ms) end
         return {redis.call('PEXPIRETIME', counter), 0}",
    )
});

/// Gives a call back, if its window is not over.
pub(super) static GIVE_BACK: LazyLock<ClientScript> = LazyLock::new(|| {
    script!(
        "#!lua flags=allow-oom\n",
        [counter],
        [ends_ms],
        "local taken = tonumber(redis.call('GET', counter) or '0')
         local is_over = redis.call('PEXPIRETIME', counter) ~= tonumber(ends_ms)
         if taken > 0 and not is_over then redis.call('DECR', counter) end
         return taken",
    )
});

/// Adds a name to a set that has fewer than so many from one on to before another; returns whether it
/// is there.
pub(super) static NOTE: LazyLock<ClientScript> = LazyLock::new(|| {
    script!(
        "",
        [names],
        [name, first, behind, most],
        "if redis.call('ZSCORE', names, name) then return 1 end
         local many = redis.call('ZLEXCOUNT', names, first, behind)
         if many >= tonumber(most) then return 0 end
         return redis.call('ZADD', names, 0, name)",
    )
});

/// A script that may call `next`, which returns the number of a line behind all others, of operators and
/// of tokens.
macro_rules! numbering {
    ([$($key:ident),+], [$($argument:ident),+], $body:literal $(,)?) => {
        script!(
            "local function next(operators, tokens)
               local newest = redis.call('XREVRANGE', operators, '+', '-', 'COUNT', 1)[1]
               newest = newest and tonumber(string.match(newest[1], '^%d+')) or 0
               local last = redis.call('ZREVRANGE', tokens, 0, 0, 'WITHSCORES')[2]
               return math.max(newest, tonumber(last or '0')) + 1
             end\n",
            [$($key),+],
            [$($argument),+],
            $body
        )
    };
}

/// Adds a line of an operator, of which about so many are kept.
pub(super) static ADD_LINE: LazyLock<ClientScript> = LazyLock::new(|| {
    numbering!(
        [operators, tokens],
        [most, line],
        "local place = string.format('%.0f-0', next(operators, tokens))
         redis.call('XADD', operators, 'MAXLEN', '~', most, place, 'line', line)
         return 0",
    )
});

/// Adds a line of a token, of which about so many are kept. Where there are more, some of the oldest are
/// looked at, and those go whose namespace has more than an equal share; its lines are counted. A look that
/// finds too few is gone on with by the next one, up to the line that was the newest when the first began:
/// the oldest go before those that were added since. Where the counts are wrong, as keys were removed, the
/// oldest go.
pub(super) static ADD_LINE_OF_TOKEN: LazyLock<ClientScript> = LazyLock::new(|| {
    numbering!(
        [operators, tokens, counts, looked],
        [most, namespace, line],
        "local LOOKS = 100
         local number = string.format('%.0f', next(operators, tokens))
         redis.call('ZADD', tokens, number, number .. ' ' .. namespace .. ' ' .. line)
         redis.call('HINCRBY', counts, namespace, 1)
         local over = redis.call('ZCARD', tokens) - most
         if over <= 0 then return 0 end
         local share = most / redis.call('HLEN', counts)
         local after, newest = string.match(redis.call('GET', looked) or '', '^(%S+) (%S+)$')
         newest = newest or number
         local some = redis.call('ZRANGEBYSCORE', tokens, after or '-inf', newest, 'LIMIT', 0, LOOKS)
         local place = ''
         for at, it in ipairs(some) do
           local number, of = string.match(it, '^(%d+) (%S*)')
           if not of then
             over = over - redis.call('ZREM', tokens, it)
           elseif tonumber(redis.call('HGET', counts, of) or '0') > share then
             redis.call('HINCRBY', counts, of, -1)
             over = over - redis.call('ZREM', tokens, it)
           end
           if over <= 0 then place = '' break end
           if at == LOOKS and number then place = '(' .. number .. ' ' .. newest end
         end
         redis.call('SET', looked, place)
         if over > most / 10 then redis.call('ZREMRANGEBYRANK', tokens, 0, over - most / 10) end
         return 0",
    )
});
