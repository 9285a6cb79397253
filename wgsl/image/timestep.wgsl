// Sine and cosine embedding of numbers: y[i] = [cos(t f), sin(t f)] (or sine first), with
// f[j] = max_period^(-j / (half - freq_shift)).
// Bindings: values f32 (the numbers, or with a state the step table), state u32, y [n, C] (written).
// One invocation four channels. The angle is reduced by hand: t f reaches 1000, where the precision
// that WGSL promises for sine and cosine ends.

{% if has_state %}
{{ state_words }}
{% endif %}
fn wave(t: f32, c: u32) -> f32 {
    let j = c % {{ half }}u;
    let frequency = exp(f32(j) * {{ exponent }});
    let turns = t * frequency * 0.15915494309189535;
    // A cosine is a sine a quarter of a turn on.
    let quarter = select(0.0, 0.25, (c < {{ half }}u) == {{ "true" if flip else "false" }});
    return sin((fract(turns + quarter + 0.5) - 0.5) * 6.283185307179586);
}

@compute @workgroup_size({{ size }})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.x / {{ slices }}u;
    let s = id.x % {{ slices }}u;
    if (row >= {{ rows }}u) {
        return;
    }
{% if has_state %}
    let step = min(state[STEP], {{ steps - 1 }}u);
    let t = values[step * {{ step_words }}u + TIMESTEP];
{% else %}
    let t = values[row];
{% endif %}
    let c = 4u * s;
    var v = vec4<f32>(wave(t, c), wave(t, c + 1u), wave(t, c + 2u), wave(t, c + 3u));
{% if channels % 4 %}
    v = select(vec4<f32>(0.0), v, vec4<u32>(c) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>({{ channels }}u));
{% endif %}
    y_put(row, s, v);
}
