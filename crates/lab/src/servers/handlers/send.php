<?php
// The handler `send` in PHP: `size` bytes of text in `writes` writes, filled as `fill` says.
function number(string $name, int $default, int $least): int {
    $text = $_GET[$name] ?? (string) $default;
    if (!is_string($text) || !preg_match('/^[0-9]{1,15}$/D', $text) || (int) $text < $least) {
        http_response_code(400);
        exit("$name: a whole number from $least\n");
    }
    return (int) $text;
}

header('Content-Type: text/plain');
$size = number('size', 10240, 0);
$writes = number('writes', 1, 1);
$fill = $_GET['fill'] ?? 'random';
if ($writes > max($size, 1) || !in_array($fill, ['random', 'pattern', 'none'], true)) {
    http_response_code(400);
    exit("writes: at most size; fill: random, pattern or none\n");
}
header("Content-Length: $size");
if ($_SERVER['REQUEST_METHOD'] === 'HEAD') {
    exit;
}
$begin = 0;
for ($write = 1; $write <= $writes; $write++) {
    $end = intdiv($size * $write, $writes);
    if ($fill === 'none') {
        $piece = str_repeat('?', $end - $begin);
    } else {
        $piece = '';
        for ($index = $begin; $index < $end; $index++) {
            // One call of the generator for each byte, as in WebStone's own handlers.
            $piece .= chr(63 + ($fill === 'random' ? mt_rand() : $index) % 26);
        }
    }
    echo $piece;
    flush();
    $begin = $end;
}
