// What the page shows. Texts of other members become text nodes, and never markup.

const element = id => document.getElementById(id)
const put = (id, text) => { element(id).textContent = text }

/** How much is shown. The characters are those of one text, and of all lines together. When there are more lines, and so many
 *  spare ones, the oldest are removed together. */
const Shown = {
    lines: 500, spare: 100, rows: 100, text: 1 << 16, characters: 4 << 20, names: 20, frames: 40, trips: 60, seconds: 60,
}

const query = new URLSearchParams(location.search)
const clean = text => text.replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069\u2028\u2029]/gu, "\ufffd")
const shownName = name => clean(name.slice(0, 64))
const room = query.get("room") || "lobby"
const socketURL = (location.protocol === "https:" ? "wss://" : "ws://") + location.host
    + document.querySelector("meta[name=socket]").content

// The name of the user. A made-up name is kept for this tab, and a chosen one for later tabs too. A browser may deny both.

function storedName() {
    for (const store of ["sessionStorage", "localStorage"]) {
        try {
            const name = window[store].getItem("imbench-chat-name")
            if (name) return name
        } catch {}
    }
    return `guest-${100 + Math.floor(Math.random() * 900)}`
}

function storeName(name, ...stores) {
    for (const store of stores) {
        try {
            window[store].setItem("imbench-chat-name", name)
        } catch {}
    }
}

const startName = shownName(query.get("name") || storedName())
storeName(startName, "sessionStorage")

// Lines of the chat

const ownLines = new Map()
let shownCharacters = 0
/** Messages that arrived while the user was reading earlier ones. */
let unread = 0

const shownTime = time => time < 1000 ? `${time.toFixed(1)} ms` : `${(time / 1000).toFixed(1)} s`

const isAtEnd = () => element("lines").scrollHeight - element("lines").scrollTop - element("lines").clientHeight < 40

function showUnread(count) {
    unread = count
    element("unread").hidden = count === 0
    put("unread", count === 1 ? "1 new message" : `${count} new messages`)
}

function scrollToEnd() {
    element("lines").scrollTop = element("lines").scrollHeight
    showUnread(0)
}

/** A text of a message, whose line feeds and tabs are shown. */
function shownText(text) {
    // Some programs end lines with CR LF.
    const rows = text.slice(0, Shown.text).replaceAll("\r", "").split("\n")
    if (rows.length > Shown.rows) rows.splice(Shown.rows, Infinity, "…")
    return rows.map(row => row.split("\t").map(clean).join("\t")).join("\n")
}

function addLine(kind, sender, text, time) {
    const lines = element("lines")
    const follows = isAtEnd() || kind === "own"
    const line = document.createElement("li")
    line.className = kind
    const addPart = (name, content) => {
        const part = document.createElement("span")
        part.className = name
        // Each text has the direction of its own script.
        part.dir = "auto"
        part.textContent = content
        line.append(part)
    }
    if (sender !== null) addPart("sender", shownName(sender))
    addPart("body", shownText(text))
    const tail = document.createElement("time")
    const date = new Date(time)
    tail.textContent = isNaN(date) || time === 0 ? "" : date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
    line.append(tail)
    lines.append(line)
    line.characters = line.textContent.length
    shownCharacters += line.characters
    removeOldLines()
    if (kind !== "status") element("hint").hidden = true
    if (follows) scrollToEnd()
    else if (kind === "other") showUnread(unread + 1)
    return line
}

/** Removes the oldest lines. What the user reads stays where it is. */
function removeOldLines() {
    const lines = element("lines")
    const isTooMuch = spare => lines.childElementCount > Shown.lines + spare || shownCharacters > Shown.characters
    if (!isTooMuch(Shown.spare)) return
    const top = () => lines.lastElementChild.getBoundingClientRect().top
    const before = top()
    while (isTooMuch(0)) {
        shownCharacters -= lines.firstElementChild.characters
        lines.firstElementChild.remove()
    }
    lines.scrollTop += top() - before
}

/** Shows how many of the other members have read a message. Those who have left count if they have read it. */
function showReaders({ mark, readers, names, time }) {
    const all = new Set([...conversation.members, ...readers]).size
    mark.textContent = `✓✓ read by ${readers.size} of ${all}, ${time}`
    mark.title = names.join(", ") + (readers.size > names.length ? ", …" : "")
}

const view = {
    own(number, sender, message) {
        const line = addLine("own", null, message.text, message.sentAtMs)
        const mark = document.createElement("span")
        mark.className = "mark"
        mark.textContent = "…"
        line.append(mark)
        ownLines.set(number, { mark, readers: new Set(), names: [], time: "", at: performance.now() })
        if (ownLines.size > Shown.lines) ownLines.delete(ownLines.keys().next().value)
        showUnconfirmed()
    },
    other(message) {
        addLine("other", message.sender || "?", message.text, message.sentAtMs)
    },
    /** The server has the message. */
    acknowledged(number) {
        showUnconfirmed()
        const line = ownLines.get(number)
        if (!line || line.time !== "") return
        line.time = shownTime(performance.now() - line.at)
        line.mark.textContent = `✓ ${line.time}`
    },
    /** The program of another member has shown the message. */
    read(number, instance, name) {
        showUnconfirmed()
        const line = ownLines.get(number)
        if (!line || line.readers.has(instance) || line.readers.size >= Stored.members) return
        line.readers.add(instance)
        if (line.names.length < Shown.names) line.names.push(shownName(name))
        line.time = shownTime(performance.now() - line.at)
        line.mark.classList.add("confirmed")
        showReaders(line)
    },
    failed(number) {
        showUnconfirmed()
        const line = ownLines.get(number)
        if (line) line.mark.textContent = "✗ not sent: too many wait"
    },
    /** A member has entered or left. */
    members() {
        for (const line of ownLines.values()) if (line.readers.size > 0) showReaders(line)
    },
    status(text, sender = null) {
        addLine("status", sender, text, 0)
    },
}

// The connection

const connection = { state: { kind: "idle" }, since: 0, openings: 0, attempts: 0, outageSince: 0, retryAt: 0 }

function stateWords(state) {
    switch (state.kind) {
    case "connecting": return state.attempt > 1 ? `connecting, attempt ${state.attempt}` : "connecting"
    case "open": return `open over ${state.carrier}, ${state.isResumed ? "session resumed" : "new session"}`
    case "waiting": return `next attempt in ${Math.max(0, (connection.retryAt - performance.now()) / 1000).toFixed(1)} s`
    case "offline": return "offline"
    case "closed": return "closed"
    default: return "starting"
    }
}

function showState() {
    const { state } = connection
    put("state", stateWords(state))
    put("pill", state.kind)
    element("pill").className = state.kind
    put("reason", state.reason ?? "")
    put("break", state.kind === "waiting" ? "Try now" : "Break the connection")
    const share = state.kind === "waiting" ? Math.max(0, connection.retryAt - performance.now()) / Math.max(1, state.delay) : 0
    element("countdown").firstElementChild.style.width = `${share * 100}%`
}

function showUnconfirmed() {
    put("unconfirmed", conversation.kept.size)
}

// Bytes, frames and round trips

const totals = { sent: {}, received: {} }
const trips = []

function showTrips() {
    const known = trips.slice(-Shown.trips)
    const sorted = [...known].sort((one, other) => one - other)
    put("trip", known.at(-1).toFixed(1))
    put("trip-least", `${sorted[0].toFixed(1)} ms`)
    put("trip-median", `${sorted[Math.floor(sorted.length / 2)].toFixed(1)} ms`)
    put("trip-most", `${sorted.at(-1).toFixed(1)} ms`)
    const top = Math.max(1, sorted.at(-1))
    const points = known.map((trip, index) => {
        const x = known.length > 1 ? index / (known.length - 1) * 240 : 240
        return `${x.toFixed(1)},${(53 - trip / top * 50).toFixed(1)}`
    })
    element("trips").firstElementChild.setAttribute("d", "M" + (points.length > 1 ? points : ["0,3", "240,3"]).join(" L"))
}

function showBytes() {
    const sums = {}
    for (const layer of ["text", "json", "session", "websocket"]) {
        for (const way of ["sent", "received"]) {
            const bytes = totals[way][layer] ?? 0
            sums[layer] = (sums[layer] ?? 0) + bytes
            put(`${way}-${layer}`, bytes.toLocaleString("en"))
        }
    }
    const sum = Object.values(sums).reduce((one, other) => one + other, 0)
    put("sum", sum.toLocaleString("en"))
    for (const part of element("bar").children) part.style.width = `${sums[part.className] / Math.max(1, sum) * 100}%`
}

function addFrame(way, name, parts) {
    const row = document.createElement("li")
    row.className = way
    const size = Object.values(parts).reduce((one, other) => one + other, 0)
    const [label, bytes] = [document.createElement("span"), document.createElement("span")]
    label.textContent = `${way === "sent" ? "↑" : "↓"} ${name}`
    bytes.textContent = `${size} B`
    row.append(label, bytes)
    const frames = element("frames")
    frames.prepend(row)
    while (frames.childElementCount > Shown.frames) frames.lastElementChild.remove()
}

const observer = {
    state(state) {
        const now = performance.now()
        if (state.kind === "open") {
            if (connection.openings > 0) put("outage", `${((now - connection.outageSince) / 1000).toFixed(2)} s`)
            connection.openings += 1
            put("reconnects", connection.openings - 1)
        } else if (connection.state.kind === "open") {
            connection.outageSince = now
        }
        if (state.kind === "connecting") put("attempts", connection.attempts += 1)
        if (state.kind === "waiting") connection.retryAt = now + state.delay
        if (state.kind === "open" || connection.state.kind === "open") {
            view.status(state.kind === "open" ? stateWords(state) : state.reason ?? "offline")
        }
        connection.state = state
        marks[marks.length - 1].className = state.kind
        showState()
    },
    frame(way, name, parts) {
        for (const [layer, bytes] of Object.entries(parts)) totals[way][layer] = (totals[way][layer] ?? 0) + bytes
        showBytes()
        addFrame(way, name, parts)
    },
    roundTrip(milliseconds) {
        trips.push(milliseconds)
        if (trips.length > 10 * Shown.trips) trips.splice(0, trips.length - Shown.trips)
        put("trip-count", connection.trips = (connection.trips ?? 0) + 1)
        showTrips()
    },
    started: () => conversation.started(),
    acknowledged: key => conversation.acknowledged(key),
    message: bytes => conversation.received(bytes),
}

// One mark for each second of the last minute

const marks = Array.from({ length: Shown.seconds }, () => {
    const mark = document.createElement("i")
    element("timeline").append(mark)
    return mark
})

setInterval(() => {
    for (let index = 1; index < marks.length; index++) marks[index - 1].className = marks[index].className
    marks[marks.length - 1].className = connection.state.kind
}, 1000)
setInterval(() => { if (connection.state.kind === "waiting") showState() }, 100)

// The user

const conversation = new Conversation(startName, room, view)
const session = new Session(socketURL, observer, document.querySelector("meta[name=fallback]").content === "on")
conversation.session = session

element("name").value = startName
element("name").addEventListener("change", event => {
    conversation.rename(shownName(event.target.value.trim()) || conversation.name)
    event.target.value = conversation.name
    storeName(conversation.name, "sessionStorage", "localStorage")
    if (!query.has("name")) return
    // The address has priority when the page is loaded again.
    query.set("name", conversation.name)
    history.replaceState(null, "", `?${query}`)
})
/** Gives the input the height of its text, up to the limit of the style. */
function fitInput() {
    const follows = isAtEnd()
    const input = element("text")
    input.style.height = "auto"
    input.style.height = `${input.scrollHeight + input.offsetHeight - input.clientHeight}px`
    if (follows) scrollToEnd()
}
element("text").addEventListener("input", fitInput)
element("text").addEventListener("keydown", event => {
    // Shift+Enter begins a line, and the Enter that ends a composed character is part of it.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return
    event.preventDefault()
    element("composer").requestSubmit()
})
element("composer").addEventListener("submit", event => {
    event.preventDefault()
    const text = element("text").value.trim()
    if (text !== "") conversation.typed(text)
    element("text").value = ""
    fitInput()
})
// The last line stays visible when the window or its keyboard changes the height.
let wasAtEnd = true
element("lines").addEventListener("scroll", () => {
    wasAtEnd = isAtEnd()
    if (unread > 0 && wasAtEnd) showUnread(0)
})
new ResizeObserver(() => { if (wasAtEnd) scrollToEnd() }).observe(element("lines"))
element("unread").addEventListener("click", scrollToEnd)
element("break").addEventListener("click", () => {
    if (connection.state.kind === "waiting") session.connect()
    else session.break()
})
element("offline").addEventListener("click", event => {
    const stays = event.target.getAttribute("aria-pressed") !== "true"
    event.target.setAttribute("aria-pressed", stays)
    event.target.textContent = stays ? "Go online" : "Stay offline"
    element("break").disabled = stays
    if (stays) session.stayOffline()
    else session.connect()
})
// A shell must not read a part of the URL or of the room as a command.
const quoted = text => `'${String(text).replaceAll("'", "'\\''")}'`
// A terminal does not know the authority of an encrypted page.
const trust = location.protocol === "https:" ? " (if the server has printed an option ca=, add it to the URL)" : ""
put("command", `imbench chat ${quoted(socketURL)} --name bob${room === "lobby" ? "" : ` --room ${quoted(clean(room))}`}`)
element("command").after(trust)
// A page that the browser keeps for its history has ended its session.
addEventListener("pagehide", () => session.end())
addEventListener("pageshow", event => { if (event.persisted) location.reload() })
session.connect()
