// Which cache rows one decoded token attends to, and how they are cut into splits. Both kernels of
// decode attention work this out from the state, so the recorded list never changes.
const SPLITS: u32 = {{ splits }}u;
const TILE: u32 = {{ tile }}u;
const POSITIONS: u32 = {{ positions }}u;

struct Span {
    first: u32,  // first row that is attended to
    end: u32,  // one past the last
    chunk: u32,  // rows of a split, a multiple of TILE
    used: u32,  // splits that have rows
}

fn span_of(position: u32) -> Span {
    let end = min(position + 1u, POSITIONS);
{% if window %}
    let first = end - min(end, {{ window }}u);
{% else %}
    let first = 0u;
{% endif %}
    let tiles = (end - first + TILE - 1u) / TILE;
    let chunk = (tiles + SPLITS - 1u) / SPLITS * TILE;
    return Span(first, end, chunk, (end - first + chunk - 1u) / chunk);
}
