// Attention of a chunk of tokens in the flash manner, products in f16. A workgroup owns ROWS query rows
// of one KV head (a row is a token and one of the query heads that share it) and walks the cache in
// tiles of KEYS. Bindings: q [T, H D], k_cache and v_cache [K, positions, D] in f16, state u32 [16],
// o [T, H D] (written).
//
// Invocation (ty, tx) owns {{ rm }} rows: of their scores {{ rk }} keys, of their sums the channel vectors tx,
// tx + TX, ... An f16 sum of scores holds two rows, so that keys lie as they come and only queries are
// laid out anew, once. Products are added up in f16 over {{ 4 * chunk }} channels (scores) and {{ flush }} keys (sums),
// those sums in f32. Lanes 2i and 2i + 1 read the same keys and values, lanes i and i + 2 of the same
// parity the same queries and weights, which lets NVIDIA serve a subgroup's 8-byte reads at once.
{% if shared_tile %}
// Keys and values take turns in one tile, which leaves room for more rows.
{% else %}
// The next keys are fetched while values are weighed, values while keys are scored.
{% endif %}

{{ state_words }}
{% set tx_count = keys // rk %}
{% set ty_count = rows // rm %}
{% set dv = (slices + tx_count - 1) // tx_count %}
{% set pairs = rm // 2 %}
{% set query_pitch = 2 * slices + 2 %}
{% set key_pitch = slices + 1 %}
{% set weight_pitch = keys // 4 + 1 %}
{% set values = "keys" if shared_tile else "values" %}
const SLICES: u32 = {{ slices }}u;
const GROUP: u32 = {{ group }}u;
const ROWS: u32 = {{ rows }}u;
const KEYS: u32 = {{ keys }}u;
const TX: u32 = {{ tx_count }}u;
const SIZE: u32 = {{ size }}u;
const POSITIONS: u32 = {{ positions }}u;
const QUERY_PITCH: u32 = {{ query_pitch }}u;
const KEY_PITCH: u32 = {{ key_pitch }}u;
const WEIGHT_PITCH: u32 = {{ weight_pitch }}u;
const MASKED: f32 = -1e9;
const LEAST: f32 = -1e8;  // below every score, so that what is masked always weighs nothing

alias Vec = vec4<f16>;

var<workgroup> queries: array<Vec, {{ rows // 2 * query_pitch }}>;  // [ROWS / 2][SLICES][2]: two rows, two channels
var<workgroup> keys: array<Vec, {{ keys * key_pitch }}>;  // [4][KEYS / 4][SLICES]: key 4i + c lies at [c][i]
{% if not shared_tile %}
var<workgroup> values: array<Vec, {{ keys * slices }}>;  // [KEYS][SLICES]
{% endif %}
var<workgroup> weights: array<Vec, {{ rows * weight_pitch }}>;  // [ROWS][KEYS / 4]
{% if not shuffle %}
var<workgroup> lanes: array<f32, {{ rows * tx_count }}>;  // [ROWS][TX]
{% endif %}

fn load_keys(kv_head: u32, at: u32, end: u32, index: u32) {
    for (var i = index; i < KEYS * SLICES; i += SIZE) {
        let key = i / SLICES;
        let place = key % 4u * {{ keys // 4 }}u + key / 4u;
        keys[place * KEY_PITCH + i % SLICES] = k_cache_read_h(0u, kv_head, min(at + key, end - 1u), i % SLICES);
    }
}

fn load_values(kv_head: u32, at: u32, end: u32, index: u32) {
    for (var i = index; i < KEYS * SLICES; i += SIZE) {
        {{ values }}[i] = v_cache_read_h(0u, kv_head, min(at + i / SLICES, end - 1u), i % SLICES);
    }
}

@compute @workgroup_size({{ size }})
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
{% include "attention/prefill_block.wgsl" %}
    let tx = index / 2u % TX;
    let row = (index / {{ 2 * tx_count }}u * 2u + index % 2u) * {{ rm }}u;

    for (var i = index; i < ROWS / 2u * SLICES; i += SIZE) {
        let r = first_row + i / SLICES * 2u;
        let s = i % SLICES;
{% for c in range(2) %}
        let channel{{ c }} = (kv_head * GROUP + (r + {{ c }}u) % GROUP) * SLICES + s;
        let q{{ c }} = Vec(q_at(min((r + {{ c }}u) / GROUP, count - 1u), channel{{ c }}) * {{ scale if softcap else scale * log2e }});
{% endfor %}
        let to = i / SLICES * QUERY_PITCH + 2u * s;
        queries[to] = Vec(q0.x, q1.x, q0.y, q1.y);
        queries[to + 1u] = Vec(q0.z, q1.z, q0.w, q1.w);
    }
    load_keys(kv_head, begin, end, index);
    workgroupBarrier();
{% for i in range(rm) %}
    let own{{ i }} = position + min((first_row + row + {{ i }}u) / GROUP, count - 1u);
    var most{{ i }} = LEAST;
    var total{{ i }} = 0.0;  // of this invocation's keys only, until the end
{% for d in range(dv) %}
    var sum{{ i }}_{{ d }} = vec4<f32>(0.0);
{% endfor %}
{% endfor %}

    for (var at = begin; at < end; at += KEYS) {
{% if not shared_tile %}
        load_values(kv_head, at, end, index);
{% endif %}
{% for i in range(rm) %}{% for j in range(rk) %}
        var score{{ i }}_{{ j }} = 0.0;
{% endfor %}{% endfor %}
        for (var c = 0u; c < SLICES; c += {{ chunk }}u) {
            let at_q = row / 2u * QUERY_PITCH + 2u * c;
            let at_k = tx * KEY_PITCH + c;
{% for p in range(pairs) %}{% for j in range(rk) %}
            var half{{ p }}_{{ j }} = vec2<f16>();
{% endfor %}{% endfor %}
{% for k in range(chunk) %}
            {
{% for j in range(rk) %}
                let k{{ j }} = keys[at_k + {{ (j % 4 * (keys // 4) + j // 4 * tx_count) * key_pitch + k }}u];
{% endfor %}
{% for p in range(pairs) %}
                let q{{ p }}_0 = queries[at_q + {{ p * query_pitch + 2 * k }}u];
                let q{{ p }}_1 = queries[at_q + {{ p * query_pitch + 2 * k + 1 }}u];
{% for c in range(4) %}
{% for j in range(rk) %}
                half{{ p }}_{{ j }} = fma(q{{ p }}_{{ c // 2 }}.{{ ["xy", "zw"][c % 2] }}, k{{ j }}.{{ "xyzw"[c] * 2 }}, half{{ p }}_{{ j }});
{% endfor %}
{% endfor %}
{% endfor %}
            }
{% endfor %}
{% for p in range(pairs) %}{% for j in range(rk) %}
            score{{ 2 * p }}_{{ j }} += f32(half{{ p }}_{{ j }}.x);
            score{{ 2 * p + 1 }}_{{ j }} += f32(half{{ p }}_{{ j }}.y);
{% endfor %}{% endfor %}
        }

        let key = at + 4u * tx;
{% for i in range(rm) %}
{% for j in range(rk) %}
{% set this = "key + %du" % (j // 4 * 4 * tx_count + j % 4) %}
{% if softcap %}
        score{{ i }}_{{ j }} = {{ softcap * log2e }} * tanh(clamp(score{{ i }}_{{ j }} / {{ softcap }}, -15.0, 15.0));
{% endif %}
        score{{ i }}_{{ j }} = select(MASKED, score{{ i }}_{{ j }}, {{ this }} <= own{{ i }}{{ " && %s + %du > own%d" % (this, window, i) if window }});
{% endfor %}
        var larger{{ i }} = {% for j in range(rk - 1) %}max({% endfor %}score{{ i }}_0{% for j in range(1, rk) %}, score{{ i }}_{{ j }}){% endfor %};
{% endfor %}
{% if shuffle %}
{% for step in [1, 2, 4, 8, 16] if step < tx_count %}
{% for i in range(rm) %}
        larger{{ i }} = max(larger{{ i }}, subgroupShuffleXor(larger{{ i }}, {{ 2 * step }}u));
{% endfor %}
{% endfor %}
{% else %}
{% for i in range(rm) %}
        lanes[(row + {{ i }}u) * TX + tx] = larger{{ i }};
{% endfor %}
        workgroupBarrier();
        for (var j = 0u; j < TX; j++) {
{% for i in range(rm) %}
            larger{{ i }} = max(larger{{ i }}, lanes[(row + {{ i }}u) * TX + j]);
{% endfor %}
        }
{% endif %}
{% for i in range(rm) %}
        {
            let now = max(most{{ i }}, larger{{ i }});
            let shrink = exp2(max(most{{ i }} - now, -120.0));
            most{{ i }} = now;
            total{{ i }} *= shrink;
{% for n in range(rk // 4) %}
            {
                let w = exp2(max(vec4<f32>({% for c in range(4) %}score{{ i }}_{{ 4 * n + c }}{{ ", " if c < 3 }}{% endfor %}) - now, vec4<f32>(-120.0)));
                total{{ i }} += (w.x + w.y) + (w.z + w.w);
                weights[(row + {{ i }}u) * WEIGHT_PITCH + tx + {{ n * tx_count }}u] = Vec(w);
            }
{% endfor %}
{% for d in range(dv) %}
            sum{{ i }}_{{ d }} *= shrink;
{% endfor %}
        }
{% endfor %}
{% if shared_tile %}
        workgroupBarrier();
        load_values(kv_head, at, end, index);
        workgroupBarrier();
{% else %}
        workgroupBarrier();
        if (at + KEYS < end) {
            load_keys(kv_head, at + KEYS, end, index);
        }
{% endif %}

        for (var first = 0u; first < KEYS / 4u; first += {{ flush // 4 }}u) {
            let at_v = first * 4u * SLICES;
            let at_w = row * WEIGHT_PITCH + first;
{% for i in range(rm) %}{% for d in range(dv) %}
            var h{{ i }}_{{ d }} = Vec();
{% endfor %}{% endfor %}
{% for quad in range(flush // 4) %}
            {
{% for i in range(rm) %}
                let w{{ i }} = weights[at_w + {{ i * weight_pitch + quad }}u];
{% endfor %}
{% for c in range(4) %}
{% for d in range(dv) %}
                {
                    let v = {{ values }}[at_v + {{ (4 * quad + c) * slices }}u + {{ ("min(tx + %du, SLICES - 1u)" if slices % tx_count else "tx + %du") % (d * tx_count) }}];
{% for i in range(rm) %}
                    h{{ i }}_{{ d }} = fma(w{{ i }}.{{ "xyzw"[c] * 4 }}, v, h{{ i }}_{{ d }});
{% endfor %}
                }
{% endfor %}
{% endfor %}
            }
{% endfor %}
{% for i in range(rm) %}{% for d in range(dv) %}
            sum{{ i }}_{{ d }} += vec4<f32>(h{{ i }}_{{ d }});
{% endfor %}{% endfor %}
        }
        workgroupBarrier();
{% if shared_tile %}
        if (at + KEYS < end) {
            load_keys(kv_head, at + KEYS, end, index);
        }
        workgroupBarrier();
{% endif %}
    }

{% if shuffle %}
{% for step in [1, 2, 4, 8, 16] if step < tx_count %}
{% for i in range(rm) %}
    total{{ i }} += subgroupShuffleXor(total{{ i }}, {{ 2 * step }}u);
{% endfor %}
{% endfor %}
{% else %}
{% for i in range(rm) %}
    lanes[(row + {{ i }}u) * TX + tx] = total{{ i }};
    total{{ i }} = 0.0;
{% endfor %}
    workgroupBarrier();
    for (var j = 0u; j < TX; j++) {
{% for i in range(rm) %}
        total{{ i }} += lanes[(row + {{ i }}u) * TX + j];
{% endfor %}
    }
{% endif %}
{% for i in range(rm) %}
    {
        let r = first_row + row + {{ i }}u;
        let channel = (kv_head * GROUP + r % GROUP) * SLICES + tx;
        let factor = 1.0 / total{{ i }};
        if (r < count * GROUP) {
{% for d in range(dv) %}
{% if slices % tx_count %}
            if (tx + {{ d * tx_count }}u < SLICES) {
                o_put(r / GROUP, channel + {{ d * tx_count }}u, sum{{ i }}_{{ d }} * factor);
            }
{% else %}
            o_put(r / GROUP, channel + {{ d * tx_count }}u, sum{{ i }}_{{ d }} * factor);
{% endif %}
{% endfor %}
        }
    }
{% endfor %}
}
