// Attention of a chunk of tokens in the flash manner. A workgroup owns ROWS query rows of one KV head
// (a row is a token and one of the query heads that share it) and walks the cache in tiles of KEYS.
// Bindings: q [T, H D], k_cache and v_cache [K, positions, D], state u32 [16], o [T, H D] (written).
//
// Invocation (ty, tx) of ROWS / {{ rm }} x KEYS / 4 owns {{ rm }} rows: of their scores four keys side by side, of their
// sums the channel vectors tx, tx + TX, ... Keys lie transposed in workgroup memory, so that four of
// them are one load. Tiles are {{ scalar }}; scores and sums are f32{{ ", the sums fed by f16 products of 8 keys at a time" if half_values }}.

{{ state_words }}
const SLICES: u32 = {{ slices }}u;
const GROUP: u32 = {{ group }}u;
const ROWS: u32 = {{ rows }}u;
const KEYS: u32 = {{ keys }}u;
const TX: u32 = {{ keys // 4 }}u;
const SIZE: u32 = {{ size }}u;
const POSITIONS: u32 = {{ positions }}u;
const QUERY_STRIDE: u32 = {{ slices + pad }}u;
const KEY_STRIDE: u32 = {{ keys // 4 + pad }}u;
{% set tx_count = keys // 4 %}
{% set dv = (slices + tx_count - 1) // tx_count %}

alias Vec = vec4<{{ scalar }}>;

var<workgroup> queries: array<Vec, {{ rows * (slices + pad) }}>;  // [ROWS][SLICES]
var<workgroup> keys: array<Vec, {{ 4 * slices * (keys // 4 + pad) }}>;  // [D][KEYS / 4]
var<workgroup> values: array<Vec, {{ keys * slices }}>;  // [KEYS][SLICES]
var<workgroup> weights: array<Vec, {{ rows * (keys // 4 + pad) }}>;  // [ROWS][KEYS / 4]
{% if not subgroup %}
var<workgroup> lanes: array<f32, {{ rows * tx_count }}>;  // [ROWS][TX]
{% endif %}

@compute @workgroup_size({{ size }})
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
{% include "attention/prefill_block.wgsl" %}
    let tx = index % TX;
    let row = index / TX * {{ rm }}u;

    for (var i = index; i < ROWS * SLICES; i += SIZE) {
        let r = first_row + i / SLICES;
        let channel = (kv_head * GROUP + r % GROUP) * SLICES + i % SLICES;
        queries[i / SLICES * QUERY_STRIDE + i % SLICES] = Vec(q_at(min(r / GROUP, count - 1u), channel) * {{ scale }});
    }
{% for i in range(rm) %}
    let own{{ i }} = position + min((first_row + row + {{ i }}u) / GROUP, count - 1u);
    var most{{ i }} = -1e9;
    var total{{ i }} = 0.0;  // of this invocation's keys only, until the end
{% for j in range(dv) %}
    var sum{{ i }}_{{ j }} = vec4<f32>(0.0);
{% endfor %}
{% endfor %}

    for (var at = begin; at < end; at += KEYS) {
        for (var i = index; i < TX * SLICES; i += SIZE) {
            let quad = i % TX;
            let s = i / TX;
{% for c in range(4) %}
            let k{{ c }} = k_cache_read(0u, kv_head, min(at + 4u * quad + {{ c }}u, end - 1u), s);
{% endfor %}
{% for c in range(4) %}
            keys[(4u * s + {{ c }}u) * KEY_STRIDE + quad] = Vec(vec4<f32>(k0.{{ "xyzw"[c] }}, k1.{{ "xyzw"[c] }}, k2.{{ "xyzw"[c] }}, k3.{{ "xyzw"[c] }}));
{% endfor %}
        }
        for (var i = index; i < KEYS * SLICES; i += SIZE) {
            values[i] = Vec(v_cache_read(0u, kv_head, min(at + i / SLICES, end - 1u), i % SLICES));
        }
        workgroupBarrier();

{% for i in range(rm) %}
        var score{{ i }} = vec4<f32>(0.0);
{% endfor %}
        for (var s = 0u; s < SLICES; s++) {
{% for c in range(4) %}
            let k{{ c }} = vec4<f32>(keys[(4u * s + {{ c }}u) * KEY_STRIDE + tx]);
{% endfor %}
{% for i in range(rm) %}
            {
                let q = vec4<f32>(queries[(row + {{ i }}u) * QUERY_STRIDE + s]);
{% for c in range(4) %}
                score{{ i }} = fma(vec4<f32>(q.{{ "xyzw"[c] }}), k{{ c }}, score{{ i }});
{% endfor %}
            }
{% endfor %}
        }
        let key = vec4<u32>(at + 4u * tx) + vec4<u32>(0u, 1u, 2u, 3u);
{% for i in range(rm) %}
{% if softcap %}
        score{{ i }} = {{ softcap }} * tanh(clamp(score{{ i }} / {{ softcap }}, vec4<f32>(-15.0), vec4<f32>(15.0)));
{% endif %}
{% if window %}
        let seen{{ i }} = (key <= vec4<u32>(own{{ i }})) & (key + vec4<u32>({{ window }}u) > vec4<u32>(own{{ i }}));
{% else %}
        let seen{{ i }} = key <= vec4<u32>(own{{ i }});
{% endif %}
        score{{ i }} = select(vec4<f32>(-1e9), score{{ i }}, seen{{ i }});
        var larger{{ i }} = max(max(score{{ i }}.x, score{{ i }}.y), max(score{{ i }}.z, score{{ i }}.w));
{% endfor %}
{% if subgroup %}
{% for step in [1, 2, 4, 8, 16] if step < tx_count %}
{% for i in range(rm) %}
        larger{{ i }} = max(larger{{ i }}, subgroupShuffleXor(larger{{ i }}, {{ step }}u));
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
            let shrink = exp(max(most{{ i }} - now, -80.0));
            let w = select(vec4<f32>(0.0), exp(max(score{{ i }} - now, vec4<f32>(-80.0))), seen{{ i }});
            most{{ i }} = now;
            total{{ i }} = fma(total{{ i }}, shrink, (w.x + w.y) + (w.z + w.w));
            weights[(row + {{ i }}u) * KEY_STRIDE + tx] = Vec(w);
{% for j in range(dv) %}
            sum{{ i }}_{{ j }} *= shrink;
{% endfor %}
        }
{% endfor %}
        workgroupBarrier();

{% if half_values %}
        for (var quad = 0u; quad < TX; quad += 2u) {
{% for i in range(rm) %}
{% for j in range(dv) %}
            var h{{ i }}_{{ j }} = Vec();
{% endfor %}
{% endfor %}
{% for both in range(2) %}
            {
{% for i in range(rm) %}
                let w{{ i }} = weights[(row + {{ i }}u) * KEY_STRIDE + quad + {{ both }}u];
{% endfor %}
{% for c in range(4) %}
{% for j in range(dv) %}
                {
                    let v = values[(4u * quad + {{ 4 * both + c }}u) * SLICES + {{ "min(tx + %du, SLICES - 1u)" % (j * tx_count) if slices % tx_count else "tx + %du" % (j * tx_count) }}];
{% for i in range(rm) %}
                    h{{ i }}_{{ j }} = fma(Vec(w{{ i }}.{{ "xyzw"[c] }}), v, h{{ i }}_{{ j }});
{% endfor %}
                }
{% endfor %}
{% endfor %}
            }
{% endfor %}
{% for i in range(rm) %}
{% for j in range(dv) %}
            sum{{ i }}_{{ j }} += vec4<f32>(h{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
        }
{% else %}
        for (var quad = 0u; quad < TX; quad++) {
{% for i in range(rm) %}
            let w{{ i }} = vec4<f32>(weights[(row + {{ i }}u) * KEY_STRIDE + quad]);
{% endfor %}
{% for c in range(4) %}
{% for j in range(dv) %}
            {
                let v = vec4<f32>(values[(4u * quad + {{ c }}u) * SLICES + {{ "min(tx + %du, SLICES - 1u)" % (j * tx_count) if slices % tx_count else "tx + %du" % (j * tx_count) }}]);
{% for i in range(rm) %}
                sum{{ i }}_{{ j }} = fma(vec4<f32>(w{{ i }}.{{ "xyzw"[c] }}), v, sum{{ i }}_{{ j }});
{% endfor %}
            }
{% endfor %}
{% endfor %}
        }
{% endif %}
        workgroupBarrier();
    }

{% if subgroup %}
{% for step in [1, 2, 4, 8, 16] if step < tx_count %}
{% for i in range(rm) %}
    total{{ i }} += subgroupShuffleXor(total{{ i }}, {{ step }}u);
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
{% for j in range(dv) %}
            if (tx + {{ j * tx_count }}u < SLICES) {
                o_put(r / GROUP, channel + {{ j * tx_count }}u, sum{{ i }}_{{ j }} * factor);
            }
{% endfor %}
        }
    }
{% endfor %}
}
