// The handler `send` in JavaScript within nginx (njs): `size` bytes of text in `writes` writes, filled as `fill` says.
function number(text, otherwise, least) {
    if (text === undefined) return otherwise;
    return /^[0-9]+$/.test(text) && Number(text) >= least ? Number(text) : null;
}

function send(r) {
    const size = number(r.args.size, 10240, 0), writes = number(r.args.writes, 1, 1);
    const fill = r.args.fill || 'random';
    if (size === null || writes === null || writes > Math.max(size, 1)) {
        return r.return(400, 'size and writes: whole numbers\n');
    }
    if (fill !== 'random' && fill !== 'pattern' && fill !== 'none') {
        return r.return(400, 'fill: random, pattern or none\n');
    }
    r.status = 200;
    r.headersOut['Content-Type'] = 'text/plain';
    r.headersOut['Content-Length'] = String(size);
    r.sendHeader();
    let begin = 0;
    for (let write = 1; write <= writes && size > 0 && r.method !== 'HEAD'; write++) {
        const end = Math.floor(size * write / writes);
        const piece = Buffer.alloc(end - begin, '?');
        if (fill !== 'none') {
            for (let index = begin; index < end; index++) {
                // One call of the generator for each byte, as in WebStone's own handlers.
                piece[index - begin] = 63 + (fill === 'random' ? Math.floor(Math.random() * 26) : index % 26);
            }
        }
        r.send(piece.toString());
        begin = end;
    }
    r.finish();
}

export default { send };
