// Convolution on matrix units: f16 inputs, f32 sums, one subgroup a part of the tile.
// See conv/parts.wgsl for what is computed. Bindings: x, skip, table, w, bias, shift, residual, y.
//
// Tiles in workgroup memory are [position][column] in f16, with a pitch of whole 16-byte units that
// is no multiple of 128 bytes. A subgroup holds over x across matrices of sums. At the end each
// passes its sums through a corner of workgroup memory to finish them by channels. With splits > 1 a
// workgroup adds up a part of the columns only, and raw sums go to `partial`.

{% import "quant/decode.wgsl" as quant %}
{% import "conv/parts.wgsl" as parts with context %}
{% set float = quant.is_float(weights.w) %}
{% set m = shape.m %}{% set n = shape.n %}{% set k = shape.k %}
{% set lines = tile_pixels // lane_pixels %}
{% set columns = tile_rows // lane_rows %}
{% set pitch = 32 * step + 8 %}
{% set over = lane_pixels // m %}
{% set across = lane_rows // n %}
alias Left = subgroup_matrix_left<f16, {{ k }}, {{ m }}>;
alias Right = subgroup_matrix_right<f16, {{ n }}, {{ k }}>;
alias Sums = subgroup_matrix_result<f32, {{ n }}, {{ m }}>;

var<workgroup> tile_x: array<f16, {{ tile_pixels * pitch }}>;
var<workgroup> tile_w: array<f16, {{ tile_rows * pitch }}>;
var<workgroup> corners: array<f32, {{ m * n * lines * columns }}>;

{{ quant.types() }}
{{ quant.decoder("w", weights.w) }}
{{ parts.pixel_of() }}
{{ parts.read_x(true) }}
{% if splits == 1 %}
{{ parts.finish() }}
{% endif %}
{% if not float %}
{{ parts.decoded("f16") }}
{% endif %}
fn weight_row(first_row: u32, p: u32) -> u32 {
    return min(first_row + p, {{ rows_here - 1 }}u);
}

fn put_x(s: u32, p: u32, v: vec4<f16>) {
    let at = p * {{ pitch }}u + 4u * s;
    tile_x[at] = v.x;
    tile_x[at + 1u] = v.y;
    tile_x[at + 2u] = v.z;
    tile_x[at + 3u] = v.w;
}

fn put_w(s: u32, p: u32, v: vec4<f16>) {
    let at = p * {{ pitch }}u + 4u * s;
    tile_w[at] = v.x;
    tile_w[at + 1u] = v.y;
    tile_w[at + 2u] = v.z;
    tile_w[at + 3u] = v.w;
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let first_pixel = (id.x + id.y * {{ grid_x }}u) * {{ tile_pixels }}u;
    let first_row = id.z / {{ splits }}u * {{ tile_rows }}u;
    let subgroup = index / {{ lanes }}u;
    let lane = index % {{ lanes }}u;
    let my_pixels = subgroup / {{ columns }}u * {{ lane_pixels }}u;
    let my_rows = subgroup % {{ columns }}u * {{ lane_rows }}u;
    let my_corner = subgroup * {{ m * n }}u;
{% for o in range(over) %}{% for a in range(across) %}
    var sums_{{ o }}_{{ a }}: Sums;
{% endfor %}{% endfor %}
    {{ parts.fetch_vars("f16", float) | indent(4) }}
    {{ parts.span() | indent(4) }}
{% if prefetch %}
    {{ parts.fetch("begin", float) | indent(4) }}
{% endif %}
    for (var g = begin; g < end; g += {{ step }}u) {
        workgroupBarrier();
{% if not prefetch %}
        {{ parts.fetch("g", float) | indent(8) }}
{% endif %}
        {{ parts.stash("f16", float) | indent(8) }}
        workgroupBarrier();
{% if prefetch %}
        if (g + {{ step }}u < end) {
            {{ parts.fetch("(g + %du)" % step, float) | indent(12) }}
        }
{% endif %}
{% for c in range(0, 32 * step, k) %}
        {
{% for o in range(over) %}
            let x_{{ o }} = subgroupMatrixLoad<Left>(&tile_x, (my_pixels + {{ o * m }}u) * {{ pitch }}u + {{ c }}u, false, {{ pitch }}u);
{% endfor %}
{% for a in range(across) %}
            let w_{{ a }} = subgroupMatrixLoad<Right>(&tile_w, (my_rows + {{ a * n }}u) * {{ pitch }}u + {{ c }}u, true, {{ pitch }}u);
{% for o in range(over) %}
            sums_{{ o }}_{{ a }} = subgroupMatrixMultiplyAccumulate(x_{{ o }}, w_{{ a }}, sums_{{ o }}_{{ a }});
{% endfor %}
{% endfor %}
        }
{% endfor %}
    }
{% for o in range(over) %}{% for a in range(across) %}
    workgroupBarrier();
    subgroupMatrixStore(&corners, my_corner, sums_{{ o }}_{{ a }}, false, {{ n }}u);
    workgroupBarrier();
    for (var at = lane; at < {{ m * n // 4 }}u; at += {{ lanes }}u) {
        let p = first_pixel + my_pixels + {{ o * m }}u + at / {{ n // 4 }}u;
        let o = first_row + my_rows + {{ a * n }}u + at % {{ n // 4 }}u * 4u;
        if (p < {{ pixels }}u && o < {{ rows_here }}u) {
            let start = my_corner + 4u * at;
            let sum = vec4<f32>(corners[start], corners[start + 1u], corners[start + 2u], corners[start + 3u]);
            {{ parts.hand_on("p", "o", "sum") | indent(12) }}
        }
    }
{% endfor %}{% endfor %}
}
