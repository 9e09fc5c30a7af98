-- The handler `send` in Lua within nginx: `size` bytes of text in `writes` writes, filled as `fill` says.
local function refuse(rule)
    ngx.status = 400
    ngx.header["Content-Type"] = "text/plain"
    ngx.print(rule .. "\n")
    return ngx.exit(ngx.OK)
end

local arguments = ngx.req.get_uri_args()
local function number(name, default, least)
    local text = arguments[name]
    if text == nil then return default end
    local value = type(text) == "string" and text:match("^%d+$") and tonumber(text)
    return value and value >= least and value or nil
end

local size, writes = number("size", 10240, 0), number("writes", 1, 1)
local fill = arguments.fill or "random"
if not size or not writes or writes > math.max(size, 1) then return refuse("size and writes: whole numbers") end
if fill ~= "random" and fill ~= "pattern" and fill ~= "none" then return refuse("fill: random, pattern or none") end

ngx.header["Content-Type"] = "text/plain"
ngx.header["Content-Length"] = size
if ngx.req.get_method() == "HEAD" then return ngx.exit(ngx.OK) end
local random, char, floor = math.random, string.char, math.floor
local begin = 0
for write = 1, writes do
    local finish = floor(size * write / writes)
    if fill == "none" then
        ngx.print(string.rep("?", finish - begin))
    else
        local piece = {}
        for index = begin, finish - 1 do
            -- One call of the generator for each byte, as in WebStone's own handlers.
            piece[#piece + 1] = char(63 + (fill == "random" and random(0, 25) or index % 26))
        end
        ngx.print(table.concat(piece))
    end
    if writes > 1 then ngx.flush(true) end
    begin = finish
end
