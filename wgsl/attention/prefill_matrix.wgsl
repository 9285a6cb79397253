// Attention of a chunk of tokens on matrix units: f16 inputs, f32 sums. A workgroup owns ROWS query rows
// of one KV head (a row is a token and one of the query heads that share it), a subgroup {{ m }} of them.
// Bindings: q [T, H D], k_cache and v_cache [K, positions, D], state u32 [16], o [T, H D] (written).
//
// Sums inside matrix units cannot be rescaled row by row when a larger score turns up. So there are
// two passes over the keys: the first only finds each row's largest score, the second weighs and adds.
// A product on matrix units costs less than moving the sums out and in again.
//
// Workgroup memory: tile holds KEYS keys and, after them, KEYS values, [position][D] with a pitch
// (queries pass through it on their way into matrices); scores [ROWS][KEYS] f32; weights the same in
// f16. In scores and weights a subgroup only touches its own rows; PER lanes share one.

{{ state_words }}
const SLICES: u32 = {{ slices }}u;
const GROUP: u32 = {{ group }}u;
const ROWS: u32 = {{ rows }}u;
const KEYS: u32 = {{ keys }}u;
const SIZE: u32 = {{ size }}u;
const POSITIONS: u32 = {{ positions }}u;
const PITCH: u32 = {{ pitch }}u;
const SCORE_PITCH: u32 = {{ keys + 4 }}u;
const WEIGHT_PITCH: u32 = {{ keys + 8 }}u;
{% set dim = 4 * slices %}
{% set per = lanes // m %}
{% set part = keys // per %}

alias Left = subgroup_matrix_left<f16, {{ k }}, {{ m }}>;
alias Right = subgroup_matrix_right<f16, {{ n }}, {{ k }}>;
alias Sums = subgroup_matrix_result<f32, {{ n }}, {{ m }}>;

var<workgroup> tile: array<f16, {{ tile_rows * pitch }}>;
var<workgroup> scores: array<f32, {{ rows * (keys + 4) }}>;
var<workgroup> weights: array<f16, {{ rows * (keys + 8) }}>;
var<workgroup> shared_by_rows: array<f32, {{ rows * per }}>;

fn put(at: u32, v: vec4<f32>) {
    tile[at] = f16(v.x);
    tile[at + 1u] = f16(v.y);
    tile[at + 2u] = f16(v.z);
    tile[at + 3u] = f16(v.w);
}

fn load_keys(kv_head: u32, at: u32, end: u32, index: u32) {
    for (var i = index; i < KEYS * SLICES; i += SIZE) {
        let s = i % SLICES;
        put(i / SLICES * PITCH + 4u * s, k_cache_read(0u, kv_head, min(at + i / SLICES, end - 1u), s));
    }
}

fn load_values(kv_head: u32, at: u32, end: u32, index: u32) {
    for (var i = index; i < KEYS * SLICES; i += SIZE) {
        let s = i % SLICES;
        put((KEYS + i / SLICES) * PITCH + 4u * s, v_cache_read(0u, kv_head, min(at + i / SLICES, end - 1u), s));
    }
}

fn seen(key: u32, own: u32) -> bool {
    return key <= own{{ " && key + %du > own" % window if window }};
}

fn score_at(i: u32) -> f32 {
{% if softcap %}
    return {{ softcap }} * tanh(clamp(scores[i] / {{ softcap }}, -15.0, 15.0));
{% else %}
    return scores[i];
{% endif %}
}
{% macro multiply_keys() %}
{% for b in range(keys // n) %}
        {
            var sums = Sums();
{% for c in range(dim // k) %}
            sums = subgroupMatrixMultiplyAccumulate(q_{{ c }}, subgroupMatrixLoad<Right>(&tile, {{ b * n * pitch + c * k }}u, true, PITCH), sums);
{% endfor %}
            subgroupMatrixStore(&scores, my_rows * SCORE_PITCH + {{ b * n }}u, sums, false, SCORE_PITCH);
        }
{% endfor %}
{% endmacro %}

@compute @workgroup_size({{ size }})
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
{% include "attention/prefill_block.wgsl" %}
    let my_rows = index / {{ lanes }}u * {{ m }}u;
    let row = my_rows + index % {{ lanes }}u / {{ per }}u;
    let my_keys = index % {{ per }}u * {{ part }}u;  // which keys of a tile this lane looks at
    let own = position + min((first_row + row) / GROUP, count - 1u);

{% for c in range(dim // k) %}
    var q_{{ c }}: Left;
{% endfor %}
    for (var i = index; i < ROWS * SLICES; i += SIZE) {
        let r = first_row + i / SLICES;
        let channel = (kv_head * GROUP + r % GROUP) * SLICES + i % SLICES;
        put(i / SLICES * PITCH + i % SLICES * 4u, q_at(min(r / GROUP, count - 1u), channel) * {{ scale }});
    }
    workgroupBarrier();
{% for c in range(dim // k) %}
    q_{{ c }} = subgroupMatrixLoad<Left>(&tile, my_rows * PITCH + {{ c * k }}u, false, PITCH);
{% endfor %}

    var most = -1e9;
    for (var at = begin; at < end; at += KEYS) {
        workgroupBarrier();
        load_keys(kv_head, at, end, index);
        workgroupBarrier();
{{ multiply_keys() }}
        workgroupBarrier();
        for (var j = 0u; j < {{ part }}u; j++) {
            if (seen(at + my_keys + j, own)) {
                most = max(most, score_at(row * SCORE_PITCH + my_keys + j));
            }
        }
    }
    shared_by_rows[index] = most;
    workgroupBarrier();
{% for p in range(per) %}
    most = max(most, shared_by_rows[index / {{ per }}u * {{ per }}u + {{ p }}u]);
{% endfor %}

    var total = 0.0;
{% for b in range(dim // n) %}
    var sums_{{ b }}: Sums;
{% endfor %}
    for (var at = begin; at < end; at += KEYS) {
        workgroupBarrier();
        load_keys(kv_head, at, end, index);
        load_values(kv_head, at, end, index);
        workgroupBarrier();
{{ multiply_keys() }}
        workgroupBarrier();
        for (var j = 0u; j < {{ part }}u; j++) {
            let score = score_at(row * SCORE_PITCH + my_keys + j);
            let weight = select(0.0, exp(clamp(score - most, -80.0, 0.0)), seen(at + my_keys + j, own));
            total += weight;
            weights[row * WEIGHT_PITCH + my_keys + j] = f16(weight);
        }
        workgroupBarrier();
{% for c in range(keys // k) %}
        {
            let w = subgroupMatrixLoad<Left>(&weights, my_rows * WEIGHT_PITCH + {{ c * k }}u, false, WEIGHT_PITCH);
{% for b in range(dim // n) %}
            sums_{{ b }} = subgroupMatrixMultiplyAccumulate(w, subgroupMatrixLoad<Right>(&tile, {{ (keys + c * k) * pitch + b * n }}u, false, PITCH), sums_{{ b }});
{% endfor %}
        }
{% endfor %}
    }
    workgroupBarrier();
    shared_by_rows[index] = total;
{% set round = keys // n %}
{% for first in range(0, dim // n, round) %}
    workgroupBarrier();
{% set made = [round, dim // n - first] | min %}
{% for b in range(made) %}
    subgroupMatrixStore(&scores, my_rows * SCORE_PITCH + {{ b * n }}u, sums_{{ first + b }}, false, SCORE_PITCH);
{% endfor %}
    workgroupBarrier();
    for (var i = index; i < {{ rows * made * n // 4 }}u; i += SIZE) {
        let mine = i / {{ made * n // 4 }}u;
        let s = i % {{ made * n // 4 }}u;
        let r = first_row + mine;
        let start = mine * SCORE_PITCH + 4u * s;
        let sum = vec4<f32>(scores[start], scores[start + 1u], scores[start + 2u], scores[start + 3u]);
        let weight = {% for p in range(per) %}shared_by_rows[mine * {{ per }}u + {{ p }}u]{{ " + " if not loop.last }}{% endfor %};
        if (r < count * GROUP) {
            o_put(r / GROUP, (kv_head * GROUP + r % GROUP) * SLICES + {{ first * n // 4 }}u + s, sum / weight);
        }
    }
{% endfor %}
}
