// Attention of one token, first half, where subgroups have one known size: each subgroup takes keys
// of its own and nobody waits for another until the end. Bindings and partials as in
// decode_split.wgsl{% if fused %}, but instead of q there is qkv [1, (H + 2 K) D] before rotation, with rope_freqs
// and, where heads are normalised, q_gain and k_gain; k_cache and v_cache are written. Every
// workgroup rotates its own queries. The one that has the newest token (the last split) makes its
// key and value too, uses them from workgroup memory and puts them into the caches; the others do
// not read that row, so none waits for it{% endif %}.
//
// Scores: PARTS lanes share a key, SLOTS keys go at once, {{ passes }} passes make a block. The running
// maximum moves once a block. Values: lanes own channels ({{ value_rows }} keys at once) and get the weights
// by shuffles. The keys of the next block are loaded while this one is worked on.

{{ state_words }}
{% include "attention/span.wgsl" %}
{% if fused %}
const HEADS: u32 = {{ heads }}u;
const KV_HEADS: u32 = {{ kv_heads }}u;
{% endif %}
const SLICES: u32 = {{ slices }}u;
const UNITS: u32 = {{ units }}u;  // loads of a key: {{ 4 * width }} channels each
const LANES: u32 = {{ lanes }}u;  // of a subgroup
const SUBS: u32 = {{ subs }}u;  // subgroups of a workgroup
const PARTS: u32 = {{ parts }}u;
const SLOTS: u32 = {{ slots }}u;
const BLOCK: u32 = {{ slots * passes }}u;
const VALUE_LANES: u32 = {{ value_lanes }}u;  // lanes that share a value
const GROUP: u32 = {{ group }}u;
{% set spread = (units + parts - 1) // parts %}
{% set owned = (units + value_lanes - 1) // value_lanes %}
{% set steps = slots * passes // value_rows %}

// Queries{% if fused %}, then the newest key and value{% endif %}.
var<workgroup> query: array<vec4<f32>, {{ (group + (2 if fused else 0)) * slices }}>;
var<workgroup> sums: array<vec4<f32>, {{ subs * group * slices }}>;
var<workgroup> tops: array<vec2<f32>, {{ subs * group }}>;  // largest score, weights

{% if fused %}
{% include "rope/rotated.wgsl" %}

// What the cache gives back for a vector.
fn stored(v: vec4<f32>) -> vec4<f32> {
    return {{ "vec4<f32>(vec4<f16>(v))" if half_cache else "v" }};
}
{% endif %}

{# The four channels number `part` of a loaded unit. #}
{% macro channels(unit, part) %}
{% if width == 2 %}
vec4<f32>(unpack2x16float({{ unit }}.{{ "xz"[part] }}), unpack2x16float({{ unit }}.{{ "yw"[part] }}))
{%- elif half_cache %}
vec4<f32>({{ unit }})
{%- else %}
{{ unit }}
{%- endif %}
{% endmacro %}
{% macro load_keys(at) %}
{% for u in range(passes) %}
        {
            let base = (first_row + min(own + {{ at }} + {{ u * slots }}u + slot, last)) * UNITS;
{% for i in range(spread) %}
            k{{ u }}_{{ i }} = k_cache[base + {{ "min(part + %du, UNITS - 1u)" % (i * parts) if (i + 1) * parts > units else "part + %du" % (i * parts) }}];
{% endfor %}
        }
{% endfor %}
{% endmacro %}
{% macro load_values(at) %}
{% for j in range(steps) %}
        {
            let base = (first_row + min(own + {{ at }} + {{ j * value_rows }}u + value_row, last)) * UNITS;
{% for i in range(owned) %}
            v{{ j }}_{{ i }} = v_cache[base + unit{{ i }}];
{% endfor %}
        }
{% endfor %}
{% endmacro %}
{% macro capped(name) %}
{% if softcap %}
{{ name }} = {{ softcap }} * tanh(clamp({{ name }} / {{ softcap }}, -15.0, 15.0));
{% endif %}
{% endmacro %}

@compute @workgroup_size({{ lanes * subs }})
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
    let position = state[POSITION];
    let span = span_of(position);
    if (id.y >= span.used) {
        return;
    }
    let begin = span.first + id.y * span.chunk;
{% if fused %}
    let kept = state[COUNT] > 0u && position < POSITIONS;
    let fresh = kept && id.y + 1u == span.used;
    let end = select(min(begin + span.chunk, span.end), position, fresh);
{% else %}
    let end = min(begin + span.chunk, span.end);
{% endif %}
    let kv_head = id.x / {{ blocks }}u;
    let first_row = kv_head * POSITIONS;
    let head = kv_head * {{ heads_per_kv }}u + id.x % {{ blocks }}u * GROUP;
    let last_head = kv_head * {{ heads_per_kv }}u + {{ heads_per_kv - 1 }}u;
    let lane = index % LANES;
    let sub = index / LANES;
    let part = lane % PARTS;
    let slot = lane / PARTS;
    let value_row = lane / VALUE_LANES;
{% for i in range(owned) %}
    let unit{{ i }} = min(lane % VALUE_LANES + {{ i * value_lanes }}u, UNITS - 1u);
{% endfor %}

    // The subgroup's own keys: a run of the split's.
    let each = (end - begin + SUBS - 1u) / SUBS;
    let own = begin + sub * each;
    let count = max(min(own + each, end), own) - own;
    let last = max(end, 1u) - 1u;
{% for u in range(passes) %}
{% for i in range(spread) %}
    var k{{ u }}_{{ i }}: {{ unit_type }};
{% endfor %}
{% endfor %}
{% for j in range(steps) %}
{% for i in range(owned) %}
    var v{{ j }}_{{ i }}: {{ unit_type }};
{% endfor %}
{% endfor %}
    if (each > 0u) {
{{ load_keys("0u") }}
{{ load_values("0u") }}
    }

{% if fused %}
    let items = select(GROUP, GROUP + 2u, fresh) * SLICES;
    for (var i = index; i < items; i += {{ lanes * subs }}u) {
        let s = i % SLICES;
        if (i >= (GROUP + 1u) * SLICES) {
            query[i] = stored(qkv_at(0u, (HEADS + KV_HEADS + kv_head) * SLICES + s));
        } else {
            let of_key = i >= GROUP * SLICES;
            let h = select(min(head + i / SLICES, last_head), HEADS + kv_head, of_key);
            let norm = {{ "root_mean_square(0u, h * SLICES)" if q_norm or k_norm else "1.0" }};
{% if rope_dim %}
            let v = rotated(0u, h, s, norm, f32(position));
{% else %}
            let v = element(0u, h, s, norm);
{% endif %}
            query[i] = select(v * {{ scale }}, stored(v), of_key);
        }
    }
{% else %}
    for (var i = index; i < GROUP * SLICES; i += {{ lanes * subs }}u) {
        query[i] = q_at(0u, min(head + i / SLICES, last_head) * SLICES + i % SLICES) * {{ scale }};
    }
{% endif %}
    workgroupBarrier();

{% for g in range(group) %}
{% for i in range(spread) %}
{% for w in range(width) %}
{% set at = "(part + %du) * %du + %du" % (i * parts, width, w) %}
{% if (i + 1) * parts > units %}
    let q{{ g }}_{{ i }}_{{ w }} = select(vec4<f32>(0.0), query[{{ g * slices }}u + min({{ at }}, SLICES - 1u)], part + {{ i * parts }}u < UNITS);
{% else %}
    let q{{ g }}_{{ i }}_{{ w }} = query[{{ g * slices }}u + {{ at }}];
{% endif %}
{% endfor %}
{% endfor %}
    var most{{ g }} = -1e9;
    var total{{ g }} = 0.0;  // of the lane's own keys
{% for i in range(owned) %}
{% for w in range(width) %}
    var sum{{ g }}_{{ i }}_{{ w }} = vec4<f32>(0.0);
{% endfor %}
{% endfor %}
{% endfor %}
{% if fused %}
    if (fresh) {
        // All subgroups know the newest key's score; the first one counts it.
        let counts = sub == 0u && slot == 0u;
        let adds = sub == 0u && value_row == 0u;
{% for g in range(group) %}
        {
            var d = vec4<f32>(0.0);
{% for i in range(spread) %}
{% for w in range(width) %}
            d = fma(q{{ g }}_{{ i }}_{{ w }}, query[{{ group * slices }}u + min((part + {{ i * parts }}u) * {{ width }}u + {{ w }}u, SLICES - 1u)], d);
{% endfor %}
{% endfor %}
            var score = (d.x + d.y) + (d.z + d.w);
{% for step in part_masks %}
            score += subgroupShuffleXor(score, {{ step }}u);
{% endfor %}
            {{ capped("score") }}
            most{{ g }} = score;
            total{{ g }} = select(0.0, 1.0, counts);
{% for i in range(owned) %}
{% for w in range(width) %}
            sum{{ g }}_{{ i }}_{{ w }} = select(vec4<f32>(0.0), query[{{ (group + 1) * slices }}u + unit{{ i }} * {{ width }}u + {{ w }}u], adds);
{% endfor %}
{% endfor %}
        }
{% endfor %}
    }
{% endif %}

    for (var at = 0u; at < each; at += BLOCK) {
        let more = at + BLOCK < each;
{% for u in range(passes) %}
{% for g in range(group) %}
        var w{{ u }}_{{ g }} = 0.0;
{% endfor %}
        {
{% for g in range(group) %}
            var d{{ g }} = vec4<f32>(0.0);
{% endfor %}
{% for i in range(spread) %}
{% for w in range(width) %}
            {
                let k = {{ channels("k%d_%d" % (u, i), w) }};
{% for g in range(group) %}
                d{{ g }} = fma(k, q{{ g }}_{{ i }}_{{ w }}, d{{ g }});
{% endfor %}
            }
{% endfor %}
{% endfor %}
{% for g in range(group) %}
            w{{ u }}_{{ g }} = (d{{ g }}.x + d{{ g }}.y) + (d{{ g }}.z + d{{ g }}.w);
{% endfor %}
        }
{% endfor %}
        if (more) {
{{ load_keys("at + BLOCK") }}
        }
{% for step in part_masks %}
{% for u in range(passes) %}
{% for g in range(group) %}
        w{{ u }}_{{ g }} += subgroupShuffleXor(w{{ u }}_{{ g }}, {{ step }}u);
{% endfor %}
{% endfor %}
{% endfor %}
{% for u in range(passes) %}
        let valid{{ u }} = at + {{ u * slots }}u + slot < count;
{% for g in range(group) %}
        {{ capped("w%d_%d" % (u, g)) }}
        w{{ u }}_{{ g }} = select(-1e9, w{{ u }}_{{ g }}, valid{{ u }});
{% endfor %}
{% endfor %}
{% for g in range(group) %}
        {
            var larger = w0_{{ g }};
{% for u in range(1, passes) %}
            larger = max(larger, w{{ u }}_{{ g }});
{% endfor %}
{% for step in slot_masks %}
            larger = max(larger, subgroupShuffleXor(larger, {{ step }}u));
{% endfor %}
            larger = max(larger, most{{ g }});
            let shrink = exp(max(most{{ g }} - larger, -80.0));
            most{{ g }} = larger;
            total{{ g }} *= shrink;
{% for u in range(passes) %}
            w{{ u }}_{{ g }} = select(0.0, exp(max(w{{ u }}_{{ g }} - larger, -80.0)), valid{{ u }});
            total{{ g }} += w{{ u }}_{{ g }};
{% endfor %}
{% for i in range(owned) %}
{% for w in range(width) %}
            sum{{ g }}_{{ i }}_{{ w }} *= shrink;
{% endfor %}
{% endfor %}
        }
{% endfor %}
{% for j in range(steps) %}
        {
{% set u = j * value_rows // slots %}
{% if parts != value_lanes %}
            let source = ({{ j * value_rows % slots }}u + value_row) * PARTS;
{% endif %}
{% for g in range(group) %}
            let one{{ g }} = vec4<f32>({{ "w%d_%d" % (u, g) if parts == value_lanes else "subgroupShuffle(w%d_%d, source)" % (u, g) }});
{% endfor %}
{% for i in range(owned) %}
{% for w in range(width) %}
            {
                let v = {{ channels("v%d_%d" % (j, i), w) }};
{% for g in range(group) %}
                sum{{ g }}_{{ i }}_{{ w }} = fma(one{{ g }}, v, sum{{ g }}_{{ i }}_{{ w }});
{% endfor %}
            }
{% endfor %}
{% endfor %}
        }
{% endfor %}
        if (more) {
{{ load_values("at + BLOCK") }}
        }
    }

    // Within the subgroup, then among the subgroups.
{% for g in range(group) %}
{% for step in slot_masks %}
    total{{ g }} += subgroupShuffleXor(total{{ g }}, {{ step }}u);
{% endfor %}
{% for i in range(owned) %}
{% for w in range(width) %}
{% for step in value_masks %}
    sum{{ g }}_{{ i }}_{{ w }} += subgroupShuffleXor(sum{{ g }}_{{ i }}_{{ w }}, {{ step }}u);
{% endfor %}
{% endfor %}
{% endfor %}
{% endfor %}
{% for i in range(owned) %}
    if (lane < VALUE_LANES && lane + {{ i * value_lanes }}u < UNITS) {
{% for g in range(group) %}
{% for w in range(width) %}
        sums[(sub * GROUP + {{ g }}u) * SLICES + unit{{ i }} * {{ width }}u + {{ w }}u] = sum{{ g }}_{{ i }}_{{ w }};
{% endfor %}
{% endfor %}
    }
{% endfor %}
    if (lane == 0u) {
{% for g in range(group) %}
        tops[sub * GROUP + {{ g }}u] = vec2<f32>(most{{ g }}, total{{ g }});
{% endfor %}
    }
    workgroupBarrier();
    for (var i = index; i < GROUP * SLICES; i += {{ lanes * subs }}u) {
        let g = i / SLICES;
        var most = -1e9;
{% for other in range(subs) %}
        most = max(most, tops[{{ other * group }}u + g].x);
{% endfor %}
        var sum = vec4<f32>(0.0);
        var total = 0.0;
{% for other in range(subs) %}
        {
            let top = tops[{{ other * group }}u + g];
            let weight = exp(max(top.x - most, -80.0));
            sum = fma(vec4<f32>(weight), sums[{{ other * group * slices }}u + i], sum);
            total = fma(weight, top.y, total);
        }
{% endfor %}
        if (head + g <= last_head) {
            let base = ((head + g) * SPLITS + id.y) * (SLICES + 1u);
            partials[base + i % SLICES] = sum;
            if (i % SLICES == 0u) {
                partials[base + SLICES] = vec4<f32>(most, total, 0.0, 0.0);
            }
        }
    }
{% if fused %}
    if (fresh{% if blocks > 1 %} && id.x % {{ blocks }}u == 0u{% endif %}) {
        for (var i = index; i < 2u * UNITS; i += {{ lanes * subs }}u) {
            let from_unit = {{ group * slices }}u + i * {{ width }}u;
{% if width == 2 %}
            let a = query[from_unit];
            let b = query[from_unit + 1u];
            let unit = vec4<u32>(pack2x16float(a.xy), pack2x16float(a.zw), pack2x16float(b.xy), pack2x16float(b.zw));
{% else %}
            let unit = {{ unit_type }}(query[from_unit]);
{% endif %}
            let at = (first_row + position) * UNITS + i % UNITS;
            if (i < UNITS) {
                k_cache[at] = unit;
            } else {
                v_cache[at] = unit;
            }
        }
    }
{% endif %}
}
