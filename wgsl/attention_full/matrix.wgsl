// Attention of whole sequences on matrix units, in the flash manner: f16 inputs, f32 sums.
//     o[b, i, head] = softmax over j of (q[b, i, head] . k[b, j, head] * scale) times v[b, j, head]
// Bindings: q [b n, ..], k and v [b m, ..] (heads side by side, from slice q_offset and so on; one
// value may be bound as several), o [b n, heads D] (written).
//
// A workgroup owns ROWS queries of one head, a subgroup {{ over }} x {{ shape.m }} of them, and walks the keys in
// tiles. Sums inside matrix units cannot be scaled row by row, so weights are taken relative to a
// score that need not be the largest: only when a row finds one more than LEAP (in powers of two)
// above it do all sums pass through workgroup memory into registers, where they are scaled and kept.
// After the first tiles that is rare, and until then a weight is at most 2^LEAP, which f16 holds.
//
// Workgroup memory: tile holds KEYS keys and, after them, KEYS values, [position][D] with zeros up to
// whole units (the queries pass through it on their way into matrices); scores [ROWS][KEYS] f32;
// weights the same in f16. In scores and weights a subgroup only touches its own rows; {{ per }} lanes
// share one, and take turns with its vectors of four keys. The pitches keep neighbouring rows in
// different banks. Every variable is a multiple of 16 bytes long: drivers lay them out one after the
// other, and matrices are read and written from 16-byte boundaries.

const QUERIES: u32 = {{ queries }}u;
const KEYS_IN_ALL: u32 = {{ keys }}u;
const ROWS: u32 = {{ rows }}u;
const KEYS: u32 = {{ key_tile }}u;
const SIZE: u32 = {{ size }}u;
const PITCH: u32 = {{ pitch }}u;
const SCORE_PITCH: u32 = {{ key_tile + 8 }}u;
const WEIGHT_PITCH: u32 = {{ key_tile + 8 }}u;
const LEAP: f32 = 8.0;
{% set m = shape.m %}{% set n = shape.n %}{% set k = shape.k %}
{% set own_rows = m * over %}
{% set rows_of_lane = own_rows * per // lanes %}
{% set turns = key_tile // (4 * per) %}
{% set deep = (4 * slices + k - 1) // k %}
{% set wide = (4 * slices + n - 1) // n %}
{% set padded = ([deep * k, wide * n] | max) // 4 %}
{% set masked = causal or keys % key_tile %}
{% set each = (key_tile * padded + size - 1) // size %}

alias Left = subgroup_matrix_left<f16, {{ k }}, {{ m }}>;
alias Right = subgroup_matrix_right<f16, {{ n }}, {{ k }}>;
alias Sums = subgroup_matrix_result<f32, {{ n }}, {{ m }}>;

var<workgroup> tile: array<f16, {{ tile_rows * pitch }}>;
var<workgroup> scores: array<f32, {{ rows * (key_tile + 8) }}>;
var<workgroup> weights: array<f16, {{ rows * (key_tile + 8) }}>;
var<workgroup> factors: array<f32, {{ rows }}>;  // what the sums of a row are to be multiplied by
var<workgroup> leapt: vec4<u32>;  // x: 1 where a row of this tile did

fn put(at: u32, v: vec4<f16>) {
    tile[at] = v.x;
    tile[at + 1u] = v.y;
    tile[at + 2u] = v.z;
    tile[at + 3u] = v.w;
}

fn scores_of(at: u32) -> vec4<f32> {
    return vec4<f32>(scores[at], scores[at + 1u], scores[at + 2u], scores[at + 3u]);
}
{% set offsets = {"q": q_offset, "k": k_offset, "v": v_offset} %}
{% for name in "qkv" %}

fn read_{{ name }}(row: u32, head: u32, s: u32) -> vec4<f16> {
{% if padded > slices %}
    if (s >= {{ slices }}u) {
        return vec4<f16>(0.0h);
    }
{% endif %}
    return {{ name }}_at_h(row, {{ offsets[name] }}u + head * {{ slices }}u + s);
}
{% endfor %}
{% macro position(i) %}{{ "(index + %du)" % (i * size) if i else "index" }}{% endmacro %}
{% macro guard(i) %}{{ "if (%s < %du) " % (position(i), key_tile * padded) if (i + 1) * size > key_tile * padded }}{% endmacro %}
{# Bring the keys and values of the tile from `at` on into registers, and from there into the tile. #}
{% macro fetch(at) %}
{% for i in range(each) %}
{
    let row = b * KEYS_IN_ALL + min({{ at }} + {{ position(i) }} / {{ padded }}u, KEYS_IN_ALL - 1u);
    fetched_k{{ i }} = read_k(row, head, {{ position(i) }} % {{ padded }}u);
    fetched_v{{ i }} = read_v(row, head, {{ position(i) }} % {{ padded }}u);
}
{% endfor %}
{% endmacro %}
{% macro stash() %}
{% for i in range(each) %}
{{ guard(i) }}{
    let to = {{ position(i) }} / {{ padded }}u * PITCH + {{ position(i) }} % {{ padded }}u * 4u;
    put(to, fetched_k{{ i }});
    put(to + KEYS * PITCH, fetched_v{{ i }});
}
{% endfor %}
{% endmacro %}
{# The scores of this subgroup's rows against all keys of the tile. #}
{% macro multiply_keys() %}
{% for c in range(key_tile // n) %}
{
{% for o in range(over) %}
    var sums_{{ o }} = Sums();
{% endfor %}
{% for d in range(deep) %}
    {
        let key = subgroupMatrixLoad<Right>(&tile, {{ c * n * pitch + d * k }}u, true, PITCH);
{% for o in range(over) %}
        sums_{{ o }} = subgroupMatrixMultiplyAccumulate(q_{{ o }}_{{ d }}, key, sums_{{ o }});
{% endfor %}
    }
{% endfor %}
{% for o in range(over) %}
    subgroupMatrixStore(&scores, (my_rows + {{ o * m }}u) * SCORE_PITCH + {{ c * n }}u, sums_{{ o }}, false, SCORE_PITCH);
{% endfor %}
}
{% endfor %}
{% endmacro %}
{# One row's scores become weights; `total`, `most` and the row's factor follow. #}
{% macro weigh(r) %}
{
    let row = my_rows + lane / {{ per }}u + {{ r * (lanes // per) }}u;
{% if masked %}
    let last = {{ "min(first_query + row, KEYS_IN_ALL - 1u)" if causal else "KEYS_IN_ALL - 1u" }};
{% endif %}
{% for j in range(turns) %}
    var s{{ j }} = scores_of(row * SCORE_PITCH + my_keys + {{ 4 * per * j }}u) * {{ scale * log2e }};
{% if masked %}
    s{{ j }} = select(vec4<f32>(-1e9), s{{ j }}, vec4<u32>(at + my_keys + {{ 4 * per * j }}u) + vec4<u32>(0u, 1u, 2u, 3u) <= vec4<u32>(last));
{% endif %}
{% endfor %}
    let fours = {% for j in range(turns - 1) %}max({% endfor %}s0{% for j in range(1, turns) %}, s{{ j }}){% endfor %};
    var largest = max(max(fours.x, fours.y), max(fours.z, fours.w));
{% for bit in [1, 2, 4, 8, 16] if bit < per %}
    largest = max(largest, subgroupShuffleXor(largest, {{ bit }}u));
{% endfor %}
    var factor = 1.0;
    if (largest > most_{{ r }} + LEAP) {
        factor = exp2(max(most_{{ r }} - largest, -126.0));
        most_{{ r }} = largest;
        leapt.x = 1u;
    }
    if (lane % {{ per }}u == 0u) {
        factors[row] = factor;
    }
    var sum = vec4<f32>(0.0);
{% for j in range(turns) %}
    {
        let weight = exp2(max(s{{ j }} - most_{{ r }}, vec4<f32>(-126.0)));
        sum += weight;
        let to = row * WEIGHT_PITCH + my_keys + {{ 4 * per * j }}u;
        weights[to] = f16(weight.x);
        weights[to + 1u] = f16(weight.y);
        weights[to + 2u] = f16(weight.z);
        weights[to + 3u] = f16(weight.w);
    }
{% endfor %}
    total_{{ r }} = fma(total_{{ r }}, factor, (sum.x + sum.y) + (sum.z + sum.w));
}
{% endmacro %}
{# What lies in matrices through workgroup memory, `round` blocks of channels at a time: `each_slot` gets
   to see the vectors of this subgroup's rows, the same lane the same ones each time. #}
{% set round = key_tile // n %}
{% macro each_vector(first, made) %}
{% set fours = made * n // 4 %}
{% set slots = (own_rows * fours + lanes - 1) // lanes %}
{% for t in range(slots) %}
{
    let slot = lane + {{ t * lanes }}u;
    let row = my_rows + slot / {{ fours }}u;
    let sum = scores_of(row * SCORE_PITCH + slot % {{ fours }}u * 4u);
    {{ "if (slot < %du) " % (own_rows * fours) if slots * lanes > own_rows * fours }}{
{{ caller("kept_%d_%d" % (first, t), "%du + slot %% %du" % (first * n // 4, fours)) | indent(8, true) }}
    }
}
{% endfor %}
{% endmacro %}
{% macro store_sums(first, made) %}
{% for o in range(over) %}{% for c in range(made) %}
subgroupMatrixStore(&scores, (my_rows + {{ o * m }}u) * SCORE_PITCH + {{ c * n }}u, out_{{ o }}_{{ first + c }}, false, SCORE_PITCH);
{% endfor %}{% endfor %}
{% endmacro %}
{% macro rescale() %}
{% for first in range(0, wide, round) %}
{% set made = [round, wide - first] | min %}
{{ store_sums(first, made) }}
workgroupBarrier();
{% call(kept, s) each_vector(first, made) %}
{{ kept }} = ({{ kept }} + sum) * factors[row];
{% endcall %}
workgroupBarrier();
{% for o in range(over) %}{% for c in range(made) %}
out_{{ o }}_{{ first + c }} = Sums();
{% endfor %}{% endfor %}
{% endfor %}
{% endmacro %}

@compute @workgroup_size({{ size }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let flat = id.x + id.y * {{ grid_x }}u;
    let first_query = flat % {{ blocks }}u * ROWS;
    let head = flat / {{ blocks }}u % {{ heads }}u;
    let b = flat / {{ blocks * heads }}u;
    if (b >= {{ batch }}u) {
        return;
    }
    let lane = index % {{ lanes }}u;
    let my_rows = index / {{ lanes }}u * {{ own_rows }}u;
    let my_keys = lane % {{ per }}u * 4u;  // the first of this lane's
    let end = {{ "min(first_query + ROWS, KEYS_IN_ALL)" if causal else "KEYS_IN_ALL" }};

{% for o in range(over) %}{% for d in range(deep) %}
    var q_{{ o }}_{{ d }}: Left;
{% endfor %}{% endfor %}
    for (var i = index; i < {{ rows * padded }}u; i += SIZE) {
        let row = b * QUERIES + min(first_query + i / {{ padded }}u, QUERIES - 1u);
        put(i / {{ padded }}u * PITCH + i % {{ padded }}u * 4u, read_q(row, head, i % {{ padded }}u));
    }
    workgroupBarrier();
{% for o in range(over) %}{% for d in range(deep) %}
    q_{{ o }}_{{ d }} = subgroupMatrixLoad<Left>(&tile, (my_rows + {{ o * m }}u) * PITCH + {{ d * k }}u, false, PITCH);
{% endfor %}{% endfor %}
{% for r in range(rows_of_lane) %}
    var most_{{ r }} = -1e9;  // what this row's weights are relative to
    var total_{{ r }} = 0.0;  // of this lane's keys only, until the end
{% endfor %}
{% for o in range(over) %}{% for c in range(wide) %}
    var out_{{ o }}_{{ c }}: Sums;
{% endfor %}{% endfor %}
{% for first in range(0, wide, round) %}
{% set made = [round, wide - first] | min %}
{% for t in range((own_rows * made * n // 4 + lanes - 1) // lanes) %}
    var kept_{{ first }}_{{ t }} = vec4<f32>(0.0);  // sums from before the last leap
{% endfor %}
{% endfor %}
{% for i in range(each) %}
    var fetched_k{{ i }}: vec4<f16>;
    var fetched_v{{ i }}: vec4<f16>;
{% endfor %}
    {{ fetch("0u") | indent(4) }}
    for (var at = 0u; at < end; at += KEYS) {
        workgroupBarrier();
        if (index == 0u) {
            leapt.x = 0u;
        }
        {{ stash() | indent(8) }}
        workgroupBarrier();
        if (at + KEYS < end) {
            {{ fetch("at + KEYS") | indent(12) }}
        }
        {{ multiply_keys() | indent(8) }}
        workgroupBarrier();
{% for r in range(rows_of_lane) %}
        {{ weigh(r) | indent(8) }}
{% endfor %}
        // The first tile has no sums to scale.
        if (workgroupUniformLoad(&leapt).x * at > 0u) {
            {{ rescale() | indent(12) }}
        }
{% for d in range(key_tile // k) %}
        {
{% for o in range(over) %}
            let w_{{ o }} = subgroupMatrixLoad<Left>(&weights, (my_rows + {{ o * m }}u) * WEIGHT_PITCH + {{ d * k }}u, false, WEIGHT_PITCH);
{% endfor %}
{% for c in range(wide) %}
            {
                let value = subgroupMatrixLoad<Right>(&tile, {{ (key_tile + d * k) * pitch + c * n }}u, false, PITCH);
{% for o in range(over) %}
                out_{{ o }}_{{ c }} = subgroupMatrixMultiplyAccumulate(w_{{ o }}, value, out_{{ o }}_{{ c }});
{% endfor %}
            }
{% endfor %}
        }
{% endfor %}
    }
{% for r in range(rows_of_lane) %}
    {
        var total = total_{{ r }};
{% for bit in [1, 2, 4, 8, 16] if bit < per %}
        total += subgroupShuffleXor(total, {{ bit }}u);
{% endfor %}
        factors[my_rows + lane / {{ per }}u + {{ r * (lanes // per) }}u] = 1.0 / total;
    }
{% endfor %}
{% for first in range(0, wide, round) %}
{% set made = [round, wide - first] | min %}
    workgroupBarrier();
    {{ store_sums(first, made) | indent(4) }}
    workgroupBarrier();
{% call(kept, s) each_vector(first, made) %}
if (first_query + row < QUERIES{{ " && %s < %du" % (s, slices) if wide * n > 4 * slices }}) {
    o_put(b * QUERIES + first_query + row, head * {{ slices }}u + {{ s }}, ({{ kept }} + sum) * factors[row]);
}
{% endcall %}
{% endfor %}
}
