// Attention of one token, first half: each workgroup takes one KV head (or a block of the query
// heads that share it) and one split of the cache, and leaves (sums of weighted values, the largest
// score, the sum of weights). Query heads that share a KV head share its loads.
// Bindings: q [1, H D], k_cache and v_cache [K, positions, D], state u32 [16],
// partials (written) [H][SPLITS][D / 4 + 1] vec4: the sums, then (largest score, weights, 0, 0).
//
// Keys go by in tiles. Scores: PARTS invocations share a key. Values: an invocation owns channels
// (one vector, or VECS where heads are wider than the workgroup) and takes every SUBS-th key.

{{ state_words }}
{% include "attention/span.wgsl" %}
const SLICES: u32 = {{ slices }}u;
const PARTS: u32 = {{ parts }}u;
const STEP: u32 = {{ threads // parts }}u;  // keys that are scored at once
const SUBS: u32 = {{ subs }}u;
{% set per_sub = tile // subs %}

var<workgroup> query: array<vec4<f32>, {{ group * slices }}>;
var<workgroup> dots: array<f32, {{ group * tile * parts }}>;
var<workgroup> scores: array<f32, {{ group * tile }}>;
var<workgroup> weights: array<f32, {{ group * tile }}>;
var<workgroup> largest: array<f32, {{ group }}>;
var<workgroup> larger: array<f32, {{ group }}>;  // the largest score after this tile
var<workgroup> shrink: array<f32, {{ group }}>;  // what earlier sums are multiplied by
{% if subs > 1 %}
var<workgroup> halves: array<vec4<f32>, {{ (subs - 1) * round_heads * slices }}>;
{% endif %}
var<workgroup> totals: array<f32, {{ group * subs }}>;

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
    let span = span_of(state[POSITION]);
    let begin = span.first + id.y * span.chunk;
    if (id.y >= span.used) {
        return;
    }
    let end = min(begin + span.chunk, span.end);
    let kv_head = id.x{% if blocks > 1 %} / {{ blocks }}u{% endif %};
{% if blocks > 1 %}
    let head = kv_head * {{ heads_per_kv }}u + id.x % {{ blocks }}u * {{ group }}u;
    let last_head = kv_head * {{ heads_per_kv }}u + {{ heads_per_kv - 1 }}u;
{% else %}
    let head = kv_head * {{ group }}u;
{% endif %}
    for (var i = index; i < {{ group * slices }}u; i += {{ threads }}u) {
{% if blocks > 1 %}
        query[i] = q_at(0u, min(head + i / SLICES, last_head) * SLICES + i % SLICES) * {{ scale }};
{% else %}
        query[i] = q_at(0u, head * SLICES + i) * {{ scale }};
{% endif %}
    }
    if (index < {{ group }}u) {
        largest[index] = -1e9;
    }
    workgroupBarrier();

    let key = index / PARTS;
    let part = index % PARTS;
    let lane = index % {{ lanes }}u;
    let sub = index / {{ lanes }}u;
{% for g in range(group) %}
    var total{{ g }} = 0.0;
{% for j in range(vecs) %}
    var sum{{ g }}_{{ j }} = vec4<f32>(0.0);
{% endfor %}
{% endfor %}
    for (var at = begin; at < end; at += TILE) {
        // Dot products; a key past the end repeats the last one and is masked below.
        for (var k = key; k < TILE; k += STEP) {
            let row = min(at + k, end - 1u);
{% for g in range(group) %}
            var d{{ g }} = vec4<f32>(0.0);
{% endfor %}
            for (var i = part; i < SLICES; i += {{ burst * parts }}u) {
{% for i in range(burst) %}
                let k{{ i }} = k_cache_read(0u, kv_head, row, i + {{ i * parts }}u);
{% endfor %}
{% for i in range(burst) %}
{% for g in range(group) %}
                d{{ g }} = fma(k{{ i }}, query[i + {{ g * slices + i * parts }}u], d{{ g }});
{% endfor %}
{% endfor %}
            }
{% for g in range(group) %}
            dots[({{ g * tile }}u + k) * PARTS + part] = (d{{ g }}.x + d{{ g }}.y) + (d{{ g }}.z + d{{ g }}.w);
{% endfor %}
        }
{% if prefetch %}
{% for i in range(per_sub) %}
        let v{{ i }} = v_cache_read(0u, kv_head, min(at + sub + {{ i }}u * SUBS, end - 1u), min(lane, SLICES - 1u));
{% endfor %}
{% endif %}
        workgroupBarrier();
        for (var i = index; i < {{ group * tile }}u; i += {{ threads }}u) {
            var score = 0.0;
{% for p in range(parts) %}
            score += dots[i * PARTS + {{ p }}u];
{% endfor %}
{% if softcap %}
            score = {{ softcap }} * tanh(clamp(score / {{ softcap }}, -15.0, 15.0));
{% endif %}
            scores[i] = select(-1e9, score, at + i % TILE < end);
        }
        workgroupBarrier();
        for (var i = index; i < {{ group * tile }}u; i += {{ threads }}u) {
            let g = i / TILE;
            let before = largest[g];
            var most = before;
            for (var j = 0u; j < TILE; j++) {
                most = max(most, scores[g * TILE + j]);
            }
            let weight = exp(max(scores[i] - most, -80.0));
            weights[i] = select(0.0, weight, at + i % TILE < end);
            if (i % TILE == 0u) {
                larger[g] = most;
                shrink[g] = exp(max(before - most, -80.0));
            }
        }
        workgroupBarrier();
        if (index < {{ group }}u) {
            largest[index] = larger[index];
        }
{% for g in range(group) %}
        {
            let s = shrink[{{ g }}];
            total{{ g }} *= s;
{% for j in range(vecs) %}
            sum{{ g }}_{{ j }} *= s;
{% endfor %}
        }
{% endfor %}
        if (sub < SUBS) {
{% if per_sub <= 16 and vecs == 1 %}
{% for i in range(per_sub) %}
            {
{% if not prefetch %}
                let v{{ i }} = v_cache_read(0u, kv_head, min(at + sub + {{ i }}u * SUBS, end - 1u), min(lane, SLICES - 1u));
{% endif %}
{% for g in range(group) %}
                {
                    let w = weights[{{ g * tile + i * subs }}u + sub];
                    total{{ g }} += w;
                    sum{{ g }}_0 = fma(vec4<f32>(w), v{{ i }}, sum{{ g }}_0);
                }
{% endfor %}
            }
{% endfor %}
{% else %}
            for (var i = sub; i < TILE; i += SUBS) {
                let row = min(at + i, end - 1u);
{% for j in range(vecs) %}
                let v{{ j }} = v_cache_read(0u, kv_head, row, min(lane + {{ j * lanes }}u, SLICES - 1u));
{% endfor %}
{% for g in range(group) %}
                {
                    let w = weights[{{ g * tile }}u + i];
                    total{{ g }} += w;
{% for j in range(vecs) %}
                    sum{{ g }}_{{ j }} = fma(vec4<f32>(w), v{{ j }}, sum{{ g }}_{{ j }});
{% endfor %}
                }
{% endfor %}
            }
{% endif %}
        }
    }

{% if subs > 1 %}
    if (sub < SUBS && lane == 0u) {
{% for g in range(group) %}
        totals[{{ g * subs }}u + sub] = total{{ g }};
{% endfor %}
    }
{% for start in range(0, group, round_heads) %}
    workgroupBarrier();
    if (sub > 0u && sub < SUBS && lane < SLICES) {
{% for g in range(start, [group, start + round_heads] | min) %}
        halves[((sub - 1u) * {{ round_heads }}u + {{ g - start }}u) * SLICES + lane] = sum{{ g }}_0;
{% endfor %}
    }
    workgroupBarrier();
    if (sub == 0u && lane < SLICES) {
{% for g in range(start, [group, start + round_heads] | min) %}
{% for other in range(subs - 1) %}
        sum{{ g }}_0 += halves[{{ (other * round_heads + g - start) * slices }}u + lane];
{% endfor %}
{% for other in range(1, subs) %}
        total{{ g }} += totals[{{ g * subs + other }}];
{% endfor %}
{% endfor %}
    }
{% endfor %}
{% else %}
    workgroupBarrier();
{% endif %}
    if (sub == 0u) {
{% for g in range(group) %}
{% if blocks > 1 %}
        if (head + {{ g }}u <= last_head) {
{% else %}
        {
{% endif %}
            let base = ((head + {{ g }}u) * SPLITS + id.y) * (SLICES + 1u);
{% for j in range(vecs) %}
            if (lane + {{ j * lanes }}u < SLICES) {
                partials[base + lane + {{ j * lanes }}u] = sum{{ g }}_{{ j }};
            }
{% endfor %}
            if (lane == 0u) {
                partials[base + SLICES] = vec4<f32>(largest[{{ g }}], total{{ g }}, 0.0, 0.0);
            }
        }
{% endfor %}
    }
}
