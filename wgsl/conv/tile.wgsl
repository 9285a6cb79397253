// Convolution by tiles in workgroup memory: any device, f32 or (half) f16 products.
// See conv/parts.wgsl for what is computed. Bindings: x, skip, w, table, bias, shift, residual, y.
//
// A workgroup makes tile_pixels output pixels by tile_rows output channels. In each step it brings
// `step` groups of 32 columns of both into workgroup memory, slice by slice ([slice][position], so
// that neighbouring lanes touch neighbouring banks): the pixels' columns are gathered, normalised
// and activated on the way, the weights decoded. An invocation holds lane_pixels x lane_rows sums.
// Position p of the rows: invocation column c of `columns` holds the positions i * columns + c,
// which are the rows 4c to 4c + 3 of each run of 4 * columns. With `half`, products are added up in
// f16 within one group and the groups in f32. With splits > 1 a workgroup adds up a part of the
// columns only, and raw sums go to `partial` [split][pixel][channel].

{% import "quant/decode.wgsl" as quant %}
{% import "conv/parts.wgsl" as parts with context %}
{% set float = quant.is_float(weights.w) %}
{% set scalar = "f16" if half else "f32" %}
{% set vec4 = "vec4<%s>" % scalar %}
{% set columns = tile_rows // lane_rows %}
{% set lines = tile_pixels // lane_pixels %}
{% set pitch_w = tile_rows + 2 %}
{% set pitch_x = tile_pixels + 1 %}
var<workgroup> tile_w: array<{{ vec4 }}, {{ pitch_w * step * 8 }}>;
var<workgroup> tile_x: array<{{ vec4 }}, {{ pitch_x * step * 8 }}>;

{{ quant.types() }}
{{ quant.decoder("w", weights.w) }}
{{ parts.pixel_of() }}
{{ parts.read_x(half) }}
{% if splits == 1 %}
{{ parts.finish() }}
{% endif %}
fn weight_row(first_row: u32, p: u32) -> u32 {
    let at = p / {{ 4 * columns }}u * {{ 4 * columns }}u + p % {{ columns }}u * 4u + p / {{ columns }}u % 4u;
    return min(first_row + at, {{ rows_here - 1 }}u);
}

{% if not float %}
{{ parts.decoded(scalar) }}
{% endif %}
fn put_x(s: u32, p: u32, v: {{ vec4 }}) {
    tile_x[s * {{ pitch_x }}u + p] = v;
}

fn put_w(s: u32, p: u32, v: {{ vec4 }}) {
    tile_w[s * {{ pitch_w }}u + p] = v;
}

{# Add the products of slice k of the tiles. #}
{% macro products(k) %}
let at_w = {{ k }} * {{ pitch_w }}u + column;
let at_x = {{ k }} * {{ pitch_x }}u + line;
{% for r in range(lane_rows) %}
let w_{{ r }} = tile_w[at_w + {{ r * columns }}u];
{% endfor %}
{% for t in range(lane_pixels) %}
let x_{{ t }} = tile_x[at_x + {{ t * lines }}u];
{% for r in range(lane_rows) %}
{% if half %}
{% set sum = "half_%d_%d" % (r, t) %}
{{ sum }} = fma(x_{{ t }}.zw, w_{{ r }}.zw, fma(x_{{ t }}.xy, w_{{ r }}.xy, {{ sum }}));
{% else %}
{% set sum = "sum_%d_%d" % (r, t) %}
{% for e in "xyzw" %}
{{ sum }} = fma(x_{{ t }}.{{ e }}, w_{{ r }}.{{ e }}, {{ sum }});
{% endfor %}
{% endif %}
{% endfor %}
{% endfor %}
{% endmacro %}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let first_pixel = (id.x + id.y * {{ grid_x }}u) * {{ tile_pixels }}u;
    let first_row = id.z / {{ splits }}u * {{ tile_rows }}u;
    let column = index % {{ columns }}u;
    let line = index / {{ columns }}u;
{% for t in range(lane_pixels) %}{% for r in range(lane_rows) %}
    var sum_{{ r }}_{{ t }} = 0.0;
{% endfor %}{% endfor %}
    {{ parts.fetch_vars(scalar, float) | indent(4) }}
    {{ parts.span() | indent(4) }}
{% if prefetch %}
    {{ parts.fetch("begin", float) | indent(4) }}
{% endif %}
    for (var g = begin; g < end; g += {{ step }}u) {
        workgroupBarrier();
{% if not prefetch %}
        {{ parts.fetch("g", float) | indent(8) }}
{% endif %}
        {{ parts.stash(scalar, float) | indent(8) }}
        workgroupBarrier();
{% if prefetch %}
        if (g + {{ step }}u < end) {
            {{ parts.fetch("(g + %du)" % step, float) | indent(12) }}
        }
{% endif %}
{% for part in range(step) %}
        {
{% if half %}
{% for t in range(lane_pixels) %}{% for r in range(lane_rows) %}
            var half_{{ r }}_{{ t }} = vec2<f16>(0.0);
{% endfor %}{% endfor %}
{% endif %}
{% if unroll %}
{% for k in range(8) %}
            {
                {{ products("%du" % (8 * part + k)) | indent(16) }}
            }
{% endfor %}
{% else %}
            for (var k = {{ 8 * part }}u; k < {{ 8 * part + 8 }}u; k++) {
                {{ products("k") | indent(16) }}
            }
{% endif %}
{% if half %}
{% for t in range(lane_pixels) %}{% for r in range(lane_rows) %}
            sum_{{ r }}_{{ t }} += f32(half_{{ r }}_{{ t }}.x) + f32(half_{{ r }}_{{ t }}.y);
{% endfor %}{% endfor %}
{% endif %}
        }
{% endfor %}
    }
{% for t in range(lane_pixels) %}
    {
        let p = first_pixel + line + {{ t * lines }}u;
        if (p < {{ pixels }}u) {
{% for c in range(lane_rows // 4) %}
            {
                let o = first_row + {{ 4 * columns * c }}u + 4u * column;
                if (o < {{ rows_here }}u) {
                    let sum = vec4<f32>({% for k in range(4) %}{{ ", " if k }}sum_{{ 4 * c + k }}_{{ t }}{% endfor %});
                    {{ parts.hand_on("p", "o", "sum") | indent(20) }}
                }
            }
{% endfor %}
        }
    }
{% endfor %}
}
