{# `fn joined(b, y, x, s)`: slice s of x, behind which the channels of skip follow. #}
{% macro joined() %}
fn joined(b: u32, y: u32, x: u32, s: u32) -> vec4<f32> {
{% if has_skip %}
    if (s >= {{ x_slices }}u) {
        return skip_read(b, y, x, s - {{ x_slices }}u);
    }
{% endif %}
    return x_read(b, y, x, s);
}
{% endmacro %}
