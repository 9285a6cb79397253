// Matrix times vector, decoded in registers: lanes share the columns of a few rows, then add up.
// See matvec/parts.wgsl for what is computed. Bindings: x [T, cols]; w (part with the gate rows, or
// the only ones); u (part with the up rows, where it is another); y [T, total], written; gain [cols];
// bias [rows of the weight]; residual [T, total]. Bound are only those in use.
//
// A workgroup has `sets` sets; each makes `rows` output rows with `split` teams of `lanes`
// invocations that share the columns. With reduce "subgroup" a team is one subgroup and adds up
// with one subgroupAdd per row, without a barrier unless split > 1; with reduce "memory" (no
// subgroups, or of varying size) everything adds up through workgroup memory.

{% import "quant/decode.wgsl" as quant %}
{% import "matvec/parts.wgsl" as parts with context %}
{% import "matvec/inner.wgsl" as inner with context %}
{% set size = lanes * split * sets %}
{% set stride = lanes * split %}
{% set pieces = inner.pieces() | int %}
{% set values = names | length * rows * tokens %}
{% set direct = reduce == "subgroup" and split == 1 %}
{% set parcel = 4 if vec else 1 %}
{{ quant.types() }}
{% for name in bound %}
{{ quant.decoder(name, weights[name]) }}
{% endfor %}
{% if wide %}
{{ quant.wide(weights.w) }}
{% endif %}
{{ parts.read_x() }}
{{ parts.finish() }}
{% if staged %}
// The activations (times the gain), one vector of padding after every eight: lanes that read
// whole groups meet in no bank.
var<workgroup> staged_x: array<vec4<f32>, {{ slices + slices // 8 }}>;
{% if norm_eps is not none %}
var<workgroup> staged_squares: array<f32, {{ size // lanes }}>;
{% endif %}
{% endif %}
{% if not direct %}
// [set][value][team or lane]: sums of rows, then of squares.
{% set per_set = values + (tokens if norm_eps is not none and not staged else 0) %}
{% set width = split if reduce == "subgroup" else 8 %}
var<workgroup> partial: array<f32, {{ sets * per_set * (split if reduce == "subgroup" else lanes) }}>;
{% if reduce == "memory" %}
var<workgroup> eighths: array<f32, {{ sets * per_set * 8 }}>;
{% endif %}
{% endif %}

@compute @workgroup_size({{ size }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let group = id.x{{ " + id.y * %du" % grid[0] if grid[1] > 1 }};
    let set_in_group = index / {{ stride }}u;
    let lane = index % {{ stride }}u;
    let row = (group * {{ sets }}u + set_in_group) * {{ rows }}u;
{% for m, name in names %}{% for r in range(rows) %}
{% if ragged %}
    let at_{{ m }}_{{ r }} = {{ starts[m] }}u + min(row + {{ r }}u, {{ rows_here - 1 }}u);
{% else %}
    let at_{{ m }}_{{ r }} = {{ starts[m] }}u + row + {{ r }}u;
{% endif %}
{% for t in range(tokens) %}
    var sum_{{ m }}_{{ r }}_{{ t }} = 0.0;
{% endfor %}{% endfor %}{% endfor %}
{% if norm_eps is not none %}
{% for t in range(tokens) %}
    var squares_{{ t }} = 0.0;
{% endfor %}
{% endif %}
{% if direct %}
{% for t in range(tokens) %}{% for r in range(0, rows, parcel) %}
    let early_{{ t }}_{{ r }} = early({{ t }}u, min(row + {{ r }}u, {{ last_parcel }}u));
{% endfor %}{% endfor %}
{% else %}
    // This invocation finishes one parcel of rows of one token later on.
    let ends = {{ sets * rows // parcel * tokens }}u;
    let end_set = index / {{ rows // parcel * tokens }}u;
    let end_token = index / {{ rows // parcel }}u % {{ tokens }}u;
    let end_first = index % {{ rows // parcel }}u * {{ parcel }}u;
    let end_row = (group * {{ sets }}u + end_set) * {{ rows }}u + end_first;
    let end_early = early(end_token, min(end_row, {{ last_parcel }}u));
{% endif %}
{% if staged %}
    for (var s = index; s < {{ slices }}u; s += {{ size }}u) {
        let v = x_in(0u, s);
{% if norm_eps is not none %}
        squares_0 += dot(v, v);
        staged_x[s + (s >> 3u)] = v * gain_in(s){{ inner.scaled() }};
{% else %}
        staged_x[s + (s >> 3u)] = v{{ inner.scaled() }};
{% endif %}
    }
{% if norm_eps is not none %}
    squares_0 = subgroupAdd(squares_0);
    if (index % {{ lanes }}u == 0u) {
        staged_squares[index / {{ lanes }}u] = squares_0;
    }
{% endif %}
    workgroupBarrier();
{% if norm_eps is not none %}
    squares_0 = 0.0;
    for (var team = 0u; team < {{ size // lanes }}u; team++) {
        squares_0 += staged_squares[team];
    }
{% endif %}
{% endif %}

{% set full = pieces // stride %}
{% set looped = full // unroll if full > unroll else 0 %}
{% if looped %}
    for (var i = 0u; i < {{ looped * unroll * stride }}u; i += {{ unroll * stride }}u) {
{% for k in range(unroll) %}
{{ inner.step("i + lane + %du" % (k * stride)) }}
{% endfor %}
    }
{% endif %}
{% for k in range(looped * unroll, full) %}
{{ inner.step("lane + %du" % (k * stride)) }}
{% endfor %}
{% if pieces % stride %}
    if (lane < {{ pieces % stride }}u) {
{{ inner.step("lane + %du" % (full * stride)) }}
    }
{% endif %}

{% if direct %}
{% for t in range(tokens) %}
{% if norm_eps is not none %}
    let inverse_{{ t }} = inverse_norm({{ "squares_%d" % t if staged else "subgroupAdd(squares_%d)" % t }});
{% endif %}
{% for m, name in names %}{% for r in range(rows) %}
    let total_{{ m }}_{{ r }}_{{ t }} = subgroupAdd(sum_{{ m }}_{{ r }}_{{ t }}){{ " * inverse_%d" % t if norm_eps is not none }};
{% endfor %}{% endfor %}
{% endfor %}
    if (lane == 0u) {
{% for t in range(tokens) %}{% for r in range(0, rows, parcel) %}
        if (row + {{ r }}u < {{ rows_here }}u) {
{% set last = names | length - 1 %}
{% if vec %}
            finish({{ t }}u, row + {{ r }}u,
                vec4<f32>({% for k in range(4) %}{{ ", " if k }}total_0_{{ r + k }}_{{ t }}{% endfor %}),
                vec4<f32>({% for k in range(4) %}{{ ", " if k }}total_{{ last }}_{{ r + k }}_{{ t }}{% endfor %}),
                early_{{ t }}_{{ r }});
{% else %}
            finish({{ t }}u, row + {{ r }}u, total_0_{{ r }}_{{ t }}, total_{{ last }}_{{ r }}_{{ t }}, early_{{ t }}_{{ r }});
{% endif %}
        }
{% endfor %}{% endfor %}
    }
{% else %}
{% set columns = split if reduce == "subgroup" else lanes %}
    // value v of set s lies at (s * per_set + v) * columns
{% set place = "(set_in_group * %du + %du) * %du + slot" %}
{% if reduce == "subgroup" %}
{% for m, name in names %}{% for r in range(rows) %}{% for t in range(tokens) %}
    let total_{{ m }}_{{ r }}_{{ t }} = subgroupAdd(sum_{{ m }}_{{ r }}_{{ t }});
{% endfor %}{% endfor %}{% endfor %}
{% if norm_eps is not none and not staged %}
{% for t in range(tokens) %}
    let all_{{ t }} = subgroupAdd(squares_{{ t }});
{% endfor %}
{% endif %}
    let slot = lane / {{ lanes }}u;
    if (lane % {{ lanes }}u == 0u) {
{% else %}
    let slot = lane;
    {
{% endif %}
{% set prefix = "total" if reduce == "subgroup" else "sum" %}
{% for m, name in names %}{% for r in range(rows) %}{% for t in range(tokens) %}
        partial[{{ place % (per_set, (m * rows + r) * tokens + t, columns) }}] = {{ prefix }}_{{ m }}_{{ r }}_{{ t }};
{% endfor %}{% endfor %}{% endfor %}
{% if norm_eps is not none and not staged %}
{% for t in range(tokens) %}
        partial[{{ place % (per_set, values + t, columns) }}] = {{ "all" if reduce == "subgroup" else "squares" }}_{{ t }};
{% endfor %}
{% endif %}
    }
    workgroupBarrier();
{% if reduce == "memory" %}
    for (var e = index; e < {{ sets * per_set * 8 }}u; e += {{ size }}u) {
        var sum = 0.0;
{% for k in range(lanes // 8) %}
        sum += partial[e * {{ lanes // 8 }}u + {{ k }}u];
{% endfor %}
        eighths[e] = sum;
    }
    workgroupBarrier();
{% endif %}
    if (index < ends && end_row < {{ rows_here }}u) {
        let base = end_set * {{ per_set }}u;
{% if norm_eps is not none %}
        let inverse = inverse_norm({{ "squares_0" if staged else "gather(base + %du + end_token)" % values }});
{% endif %}
{% set scaled = " * inverse" if norm_eps is not none else "" %}
{% set last = names | length - 1 %}
{% for m in [0, last] %}
{% if vec %}
        let done_{{ loop.index0 }} = vec4<f32>({% for k in range(4) %}{{ ", " if k }}gather(base + ({{ m * rows + k }}u + end_first) * {{ tokens }}u + end_token){% endfor %}){{ scaled }};
{% else %}
        let done_{{ loop.index0 }} = gather(base + ({{ m * rows }}u + end_first) * {{ tokens }}u + end_token){{ scaled }};
{% endif %}
{% endfor %}
        finish(end_token, end_row, done_0, done_1, end_early);
    }
{% endif %}
}
{% if not direct %}

fn gather(value: u32) -> f32 {
    var sum = 0.0;
{% for k in range(width) %}
    sum += {{ "partial" if reduce == "subgroup" else "eighths" }}[value * {{ width }}u + {{ k }}u];
{% endfor %}
    return sum;
}
{% endif %}
