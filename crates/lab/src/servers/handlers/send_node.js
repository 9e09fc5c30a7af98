// The handler `send` as a Node application: `size` bytes of text in `writes` writes, filled as `fill` says.
'use strict';
const cluster = require('node:cluster');
const http = require('node:http');
const [socket, processes] = process.argv.slice(2);

function number(text, otherwise, least) {
  if (text === null) return otherwise;
  return /^[0-9]+$/.test(text) && Number(text) >= least ? Number(text) : null;
}

function piece(begin, end, fill) {
  const bytes = Buffer.alloc(end - begin, '?');
  for (let index = begin; index < end && fill !== 'none'; index++) {
    // One call of the generator for each byte, as in WebStone's own handlers.
    bytes[index - begin] = 63 + (fill === 'random' ? Math.floor(Math.random() * 26) : index % 26);
  }
  return bytes;
}

function answer(request, response) {
  const query = new URL(request.url, 'http://localhost').searchParams;
  const size = number(query.get('size'), 10240, 0);
  const writes = number(query.get('writes'), 1, 1);
  const fill = query.get('fill') ?? 'random';
  if (size === null || writes === null || writes > Math.max(size, 1) || !['random', 'pattern', 'none'].includes(fill)) {
    return response.writeHead(400).end('size and writes: whole numbers; fill: random, pattern or none\n');
  }
  response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': size });
  if (request.method === 'HEAD') return response.end();
  let begin = 0;
  for (let write = 1; write <= writes; write++) {
    const end = Math.floor((size * write) / writes);
    const bytes = piece(begin, end, fill);
    if (write < writes) response.write(bytes);
    else response.end(bytes);
    begin = end;
  }
}

if (cluster.isPrimary) {
  for (let index = 0; index < Number(processes); index++) cluster.fork();
  // One that ends is an error of the run, not to be hidden.
  cluster.on('exit', () => process.exit(1));
} else {
  http.createServer(answer).listen(socket);
}
