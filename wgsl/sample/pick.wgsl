// Sampler, third kernel, one workgroup: the exact thresholds of top-k and top-p among the candidates,
// then the token (largest (logit - top) / temperature + Gumbel noise, lowest id of equals), or just
// the largest logit when greedy. Then it moves the run state on, unless that says stop.
// Bindings: maxima and candidates (see the other two), params u32 [16], history u32 [V (+ window)],
// state u32 [16] (both changed){{ ", stops u32 [32]" if stops }}{{ ", ring u32 [slots] (written)" if ring }}.
//
// A threshold is found by radix selection over the ordered bits of the logits, 8 bits a pass: the sum
// of what lies at or above it, each token counting as 1 (top-k) or as its weight in whole numbers
// (top-p), first reaches a target. Whole numbers add up the same in any order.

{{ state_words }}
{% import "sample/common.wgsl" as common with context %}
{% include "sample/common.wgsl" %}
{{ common.tree("largest", "f32", "LOWEST", "max(a, b)") }}
{{ common.tree("lowest_id", "u32", "", "min(a, b)") }}
{{ common.tree("total", "f32", "0.0", "a + b") }}
{{ common.tree("count_up", "u32", "0u", "a + b") }}

var<workgroup> bins: array<atomic<u32>, 256>;
{% if size == 256 %}
var<workgroup> above: array<u32, 512>;
{% endif %}
var<workgroup> prefix: u32;  // the threshold's bits so far
var<workgroup> passed: u32;  // the sum of what is certainly above it

// Bits whose unsigned order is the order of the floats; -0 equals 0.
fn ordered(bits: u32) -> u32 {
    let b = select(bits, 0u, bits == 0x80000000u);
    return select(b | 0x80000000u, ~b, b >= 0x80000000u);
}

fn weight(bits: u32, top: f32, scale: f32) -> u32 {
    return u32(exp(max(bitcast<f32>(bits) - top, -80.0)) * scale + 0.5);
}

// The sum over this invocation's candidates at or above a key.
fn weigh(lowest: u32, top: f32, scale: f32, index: u32) -> u32 {
    var sum = 0u;
    for (var g = index; g < SEGMENTS; g += SIZE) {
        let many = candidates[g].x;
        for (var i = 0u; i < many; i++) {
            let bits = candidates[SEGMENTS + g * LENGTH + i].x;
            if (ordered(bits) >= lowest) {
                sum += weight(bits, top, scale);
            }
        }
    }
    return sum;
}

// The lowest key that passes top-k and top-p. One loop for both, so that it is compiled once: digits
// 0 to 3 are those of top-k's threshold, 4 to 7 those of top-p's. A sum that never reaches its goal
// leaves 0, which everything passes.
fn threshold(mass: f32, top: f32, scale: f32, index: u32) -> u32 {
    let k = params[TOP_K];
    let p = setting(TOP_P);
    let some = k > 0u && k < VOCABULARY;
    var goal = k;
    var lowest = 0u;
    if (index == 0u) {
        prefix = 0u;
        passed = 0u;
    }
    for (var digit = select(4u, 0u, some); digit < select(8u, 4u, p >= 1.0); digit++) {
        if (digit == 4u) {
            lowest = prefix;
            var whole = mass * scale;
            if (some) {
                whole = f32(count_up(weigh(lowest, top, scale, index), index));
            }
            goal = max(u32(min(ceil(p * whole), 2147483520.0)), 1u);
            workgroupBarrier();
            if (index == 0u) {
                prefix = 0u;
                passed = 0u;
            }
        }
        let shift = 24u - 8u * (digit & 3u);
        for (var b = index; b < 256u; b += SIZE) {
            atomicStore(&bins[b], 0u);
        }
        workgroupBarrier();
        let known = prefix;
        for (var g = index; g < SEGMENTS; g += SIZE) {
            let many = candidates[g].x;
            for (var i = 0u; i < many; i++) {
                let bits = candidates[SEGMENTS + g * LENGTH + i].x;
                let key = ordered(bits);
                // Two shifts: a shift by 32 is not defined.
                let same = (((key ^ known) >> shift) >> 8u) == 0u;
                if (same && key >= lowest) {
                    var w = 1u;
                    if (digit >= 4u) {
                        w = weight(bits, top, scale);
                    }
                    atomicAdd(&bins[(key >> shift) & 255u], w);
                }
            }
        }
        workgroupBarrier();
{% if size == 256 %}
        // A running sum from the highest bin down, in doubling steps.
        let mine = atomicLoad(&bins[255u - index]);
        above[index] = mine;
        workgroupBarrier();
{% for step in range(8) %}
        {
            var sum = above[{{ 256 * (step % 2) }}u + index];
            if (index >= {{ 2 ** step }}u) {
                sum += above[{{ 256 * (step % 2) }}u + index - {{ 2 ** step }}u];
            }
            above[{{ 256 * ((step + 1) % 2) }}u + index] = sum;
            workgroupBarrier();
        }
{% endfor %}
        let reached = passed + above[index];
        workgroupBarrier();
        if (reached >= goal && reached - mine < goal) {
            prefix = known | ((255u - index) << shift);
            passed = reached - mine;
        }
{% else %}
        if (index == 0u) {
            var sum = passed;
            for (var b = 0u; b < 256u; b++) {
                let mine = atomicLoad(&bins[255u - b]);
                if (sum < goal && sum + mine >= goal) {
                    prefix = known | ((255u - b) << shift);
                    passed = sum;
                }
                sum += mine;
            }
        }
{% endif %}
        workgroupBarrier();
    }
    return max(lowest, prefix);
}

// pcg3d, first component (see engine/text/sampling.py, which has the same arithmetic).
fn random_u32(seed: u32, counter: u32, token: u32) -> u32 {
    var v = vec3<u32>(seed, counter, token) * 1664525u + 1013904223u;
    v.x += v.y * v.z;
    v.y += v.z * v.x;
    v.z += v.x * v.y;
    v ^= v >> vec3<u32>(16u);
    return v.x + v.y * v.z;
}

fn gumbel(bits: u32) -> f32 {
    let v = (f32(bits >> 9u) + 0.5) * 1.1920928955078125e-7;
    // Near 0 the logarithm is all rounding: its series there.
    let series = v * (1.0 + v * (0.5 + v * (1.0 / 3.0 + v * (0.25 + v * (0.2 + v / 6.0)))));
    return -log(select(-log(max(1.0 - v, 1e-30)), series, v < 0.125));
}

// The likeliest token of the whole vocabulary, and its logit.
fn likeliest(top: f32, index: u32) -> u32 {
    var id = 0xffffffffu;
    for (var g = index; g < SEGMENTS; g += SIZE) {
        if (bitcast<f32>(maxima[g].x) == top) {
            id = min(id, maxima[g].y);
        }
    }
    return lowest_id(id, index);
}

fn drawn(top: f32, index: u32) -> u32 {
    var mass = 0.0;
    var many = 0u;
    for (var g = index; g < SEGMENTS; g += SIZE) {
        let m = maxima[g];
        mass += bitcast<f32>(m.z) * exp(max(bitcast<f32>(m.x) - top, -80.0));
        many += candidates[g].x;
    }
    mass = total(mass, index);
    // Weights add up to less than 2^31: there are at most so many, and none is above 1.
    let scale = 1073741824.0 / min(mass, f32(count_up(many, index)));
    let lowest = threshold(mass, top, scale, index);
    let least = min(top, top + setting(LOG_MIN_P));
    var best = LOWEST;
    var id = 0xffffffffu;
    for (var g = index; g < SEGMENTS; g += SIZE) {
        let count = candidates[g].x;
        for (var i = 0u; i < count; i++) {
            let one = candidates[SEGMENTS + g * LENGTH + i];
            let value = bitcast<f32>(one.x);
            if (ordered(one.x) >= lowest && value >= least) {
                let noise = gumbel(random_u32(state[SEED], state[COUNTER], one.y));
                let score = (value - top) / setting(TEMPERATURE) + noise;
                if (score > best || (score == best && one.y < id)) {
                    best = score;
                    id = one.y;
                }
            }
        }
    }
    let most = largest(best, index);
    return lowest_id(select(0xffffffffu, id, best == most), index);
}

fn advance(token: u32) {
    let position = state[POSITION] + state[COUNT];
    state[POSITION] = position;
    state[COUNT] = 1u;
    state[TOKEN] = token;
    state[COUNTER] += 1u;
    history[token] += 1u;
{% if window %}
    let slot = {{ vocabulary }}u + state[RECENT] % {{ window }}u;
    let gone = history[slot];
    if (gone > 0u && gone <= VOCABULARY) {
        history[gone - 1u] -= 1u;
    }
    history[slot] = token + 1u;
    state[RECENT] += 1u;
{% endif %}
{% if ring %}
    ring[state[RING] % {{ ring }}u] = token;
{% endif %}
    state[RING] += 1u;
{% if stops %}
    for (var i = 0u; i < min(stops[0], {{ stops - 1 }}u); i++) {
        if (stops[i + 1u] == token) {
            state[STOP] = STOP_TOKEN;
        }
    }
{% endif %}
{% if positions %}
    if (position >= {{ positions }}u && state[STOP] == 0u) {
        state[STOP] = STOP_CONTEXT;
    }
{% endif %}
}

@compute @workgroup_size({{ size }})
fn main(@builtin(local_invocation_index) index: u32) {
    var best = LOWEST;
    for (var g = index; g < SEGMENTS; g += SIZE) {
        best = max(best, bitcast<f32>(maxima[g].x));
    }
    let top = largest(best, index);
    var token: u32;
    if (setting(TEMPERATURE) > 0.0) {
        token = drawn(top, index);
    } else {
        token = likeliest(top, index);
    }
    if (index == 0u && state[STOP] == 0u) {
        advance(min(token, VOCABULARY - 1u));
    }
}
