{#
What all convolution kernels share. They compute, as one matrix product whose columns are the taps
(ky, kx) times the channels of the input,
    y[p, o] = act(sum over taps, c of W[o, (tap, c)] * f(x[pixel of p and tap, c]) + bias[o]
                  + shift[b, o] + residual[p, o])
where p counts the output pixels of all pictures, pixels outside the picture are zero, `upsample`
reads every input pixel twice in both directions, the channels of `skip` follow those of x, and f is
the group norm that lies before:  norm_act(x * table[b, 0, c] + table[b, 1, c]).

Parameters: height, width (of x once upsampled), out_height, out_width, pixels (of all outputs), kernel_h, kernel_w,
stride, pad_left, pad_top, up (upsample is 1 << up), channels (of x and skip), x_channels (of x),
columns_in (of the weight), groups (of 32 columns), outputs (channels of y), has_skip, has_table,
norm_act and act (WGSL expressions of v, or none), first (output channel of the first row bound),
rows_here (rows bound), has_bias, has_shift, has_residual.
#}
{% set taps = kernel_h * kernel_w %}
{% set in_slices = (channels + 3) // 4 %}
{% set plain = taps == 1 and stride == 1 and up == 0 and pad_left == 0 and pad_top == 0 %}
{# Output pixel p as (b, y, x). #}
{% macro pixel_of() %}
fn pixel_of(p: u32) -> vec3<u32> {
    return vec3<u32>(p / {{ out_height * out_width }}u, p / {{ out_width }}u % {{ out_height }}u, p % {{ out_width }}u);
}
{% endmacro %}

{#
`fn x_in(at, k)`: four of the columns (4k to 4k + 3) that belong to an output pixel at (b, y, x), as
f16 with `half`. Past the last column it gives zeros where `padded`.
#}
{% macro read_x(half) %}
{% set type = "vec4<f16>" if half else "vec4<f32>" %}
{% set bare = half and x_half and not has_table %}
{% if has_table %}
fn normed(b: u32, s: u32, x: vec4<f32>) -> vec4<f32> {
    let v = fma(x, table_read(b, 0u, 0u, s), table_read(b, 0u, 1u, s));
    return {{ norm_act if norm_act else "v" }};
}

{% endif %}
fn x_pixel(b: u32, y: u32, x: u32, s: u32) -> {{ type }} {
{% set read = "read_h" if bare else "read" %}
{% if has_skip %}
    var v: {{ "vec4<f16>" if bare else "vec4<f32>" }};
    if (s < {{ x_channels // 4 }}u) {
        v = x_{{ read }}(b, y, x, s);
    } else {
        v = skip_{{ read }}(b, y, x, s - {{ x_channels // 4 }}u);
    }
{% else %}
    let v = x_{{ read }}(b, y, x, s);
{% endif %}
{% set value = "normed(b, s, v)" if has_table else "v" %}
{% if half and has_table %}
    return vec4<f16>({{ value }});
{% elif half and not bare %}
    return vec4<f16>(clamp({{ value }}, vec4<f32>(-65504.0), vec4<f32>(65504.0)));
{% else %}
    return {{ value }};
{% endif %}
}

{% if channels % 4 == 0 %}
fn x_in(at: vec3<u32>, k: u32) -> {{ type }} {
{% if taps * in_slices < 8 * k_groups %}
    if (k >= {{ taps * in_slices }}u) {
        return {{ type }}(0.0);
    }
{% endif %}
{% if plain %}
    return x_pixel(at.x, at.y, at.z, k);
{% else %}
    {{ tap_position("k / %du" % in_slices, type ~ "(0.0)") | indent(4) }}
    return x_pixel(at.x, {{ unscaled("iy") }}, {{ unscaled("ix") }}, k % {{ in_slices }}u);
{% endif %}
}
{% else %}
// Channels that are no multiple of four: each column is read for itself.
fn x_column(at: vec3<u32>, column: u32) -> {{ "f16" if half else "f32" }} {
    if (column >= {{ columns_in }}u) {
        return 0.0;
    }
    let c = column % {{ channels }}u;
{% if plain %}
    return x_pixel(at.x, at.y, at.z, c >> 2u)[c & 3u];
{% else %}
    {{ tap_position("column / %du" % channels, "0.0") | indent(4) }}
    return x_pixel(at.x, {{ unscaled("iy") }}, {{ unscaled("ix") }}, c >> 2u)[c & 3u];
{% endif %}
}

fn x_in(at: vec3<u32>, k: u32) -> {{ type }} {
    return {{ type }}(x_column(at, 4u * k), x_column(at, 4u * k + 1u), x_column(at, 4u * k + 2u), x_column(at, 4u * k + 3u));
}
{% endif %}
{% endmacro %}

{# Input position (before upsampling) of a tap; leaves the function outside the picture. #}
{% macro tap_position(tap, zero) %}
let tap = {{ tap }};
// Above and left of the picture the difference wraps around and is then too large as well.
let iy = at.y * {{ stride }}u + tap / {{ kernel_w }}u - {{ pad_top }}u;
let ix = at.z * {{ stride }}u + tap % {{ kernel_w }}u - {{ pad_left }}u;
if (iy >= {{ height }}u || ix >= {{ width }}u) {
    return {{ zero }};
}
{%- endmacro %}

{% macro unscaled(name) %}{{ "%s >> 1u" % name if up else name }}{% endmacro %}

{# `fn finish(at, o, sum)`: the end of output channels o to o + 3 (from the first row bound). #}
{% macro finish() %}
fn finish(at: vec3<u32>, o: u32, sum: vec4<f32>) {
    let s = (o + {{ first }}u) >> 2u;
    var v = sum;
{% if has_bias %}
    v += bias_at(0u, s);
{% endif %}
{% if has_shift %}
    v += shift_at(at.x, s);
{% endif %}
{% if has_residual %}
    v += residual_read(at.x, at.y, at.z, s);
{% endif %}
{% if act %}
    v = {{ act }};
{% endif %}
{% if outputs % 4 %}
    // The padding of the last slice stays zero.
    v = select(vec4<f32>(0.0), v, vec4<u32>(4u * s) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>({{ outputs }}u));
{% endif %}
    y_write(at.x, at.y, at.z, s, v);
}
{% endmacro %}
