-- The handler `send` in Lua within Apache: `size` bytes of text in `writes` writes, filled as `fill` says.
require "apache2"

local function refuse(r, rule)
    r.status = 400
    r:puts(rule .. "\n")
    return apache2.OK
end

local function number(text, default, least)
    if text == nil then return default end
    local value = text:match("^%d+$") and tonumber(text)
    return value and value >= least and value or nil
end

function handle(r)
    r.content_type = "text/plain"
    local arguments = r:parseargs()
    local size, writes = number(arguments.size, 10240, 0), number(arguments.writes, 1, 1)
    local fill = arguments.fill or "random"
    if not size or not writes or writes > math.max(size, 1) then return refuse(r, "size and writes: whole numbers") end
    if fill ~= "random" and fill ~= "pattern" and fill ~= "none" then
        return refuse(r, "fill: random, pattern or none")
    end
    r.headers_out["Content-Length"] = string.format("%d", size)
    if r.method == "HEAD" then return apache2.OK end
    local random, char, floor = math.random, string.char, math.floor
    local begin = 0
    for write = 1, writes do
        local finish = floor(size * write / writes)
        if fill == "none" then
            r:write(string.rep("?", finish - begin))
        else
            local piece = {}
            for index = begin, finish - 1 do
                -- One call of the generator for each byte, as in WebStone's own handlers.
                piece[#piece + 1] = char(63 + (fill == "random" and random(0, 25) or index % 26))
            end
            r:write(table.concat(piece))
        end
        if writes > 1 then r:flush() end
        begin = finish
    end
    return apache2.OK
end
