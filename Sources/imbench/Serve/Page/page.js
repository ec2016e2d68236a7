// What the page shows. Texts of other members become text nodes, and never markup.

const element = id => document.getElementById(id)
const put = (id, text) => { element(id).textContent = text }

/** How much is shown, and how many characters: of one text, and of all lines together. */
const Shown = { lines: 500, text: 1 << 16, characters: 4 << 20, frames: 40, trips: 60, seconds: 60 }

const query = new URLSearchParams(location.search)
const clean = text => text.replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069\u2028\u2029]/gu, "\ufffd")
const startName = clean(query.get("name") ?? "").slice(0, 64) || `guest-${100 + Math.floor(Math.random() * 900)}`
const room = query.get("room") || "lobby"
const socketURL = (location.protocol === "https:" ? "wss://" : "ws://") + location.host
    + document.querySelector("meta[name=socket]").content

// Lines of the chat

const ownLines = new Map()
let shownCharacters = 0

const shownTime = time => time < 1000 ? `${time.toFixed(1)} ms` : `${(time / 1000).toFixed(1)} s`

function addLine(kind, sender, text, time) {
    const lines = element("lines")
    const isAtEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40
    const line = document.createElement("li")
    line.className = kind
    if (sender !== null) {
        const head = document.createElement("span")
        head.className = "sender"
        head.textContent = clean(sender.slice(0, 64))
        line.append(head)
    }
    const body = document.createElement("span")
    body.className = "body"
    body.textContent = clean(text.slice(0, Shown.text))
    line.append(body)
    const tail = document.createElement("time")
    const date = new Date(time)
    tail.textContent = isNaN(date) || time === 0 ? "" : date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
    line.append(tail)
    lines.append(line)
    line.characters = line.textContent.length
    shownCharacters += line.characters
    while (lines.childElementCount > Shown.lines || shownCharacters > Shown.characters) {
        shownCharacters -= lines.firstElementChild.characters
        lines.firstElementChild.remove()
    }
    if (kind !== "status") element("hint").hidden = true
    if (isAtEnd) lines.scrollTop = lines.scrollHeight
    return line
}

const view = {
    own(number, sender, message) {
        const line = addLine("own", null, message.text, message.sentAtMs)
        const mark = document.createElement("span")
        mark.className = "mark"
        mark.textContent = "…"
        line.append(mark)
        ownLines.set(number, { mark, ticks: 0, at: performance.now() })
        if (ownLines.size > Shown.lines) ownLines.delete(ownLines.keys().next().value)
        showUnconfirmed()
    },
    other(message) {
        addLine("other", message.sender || "?", message.text, message.sentAtMs)
    },
    /** One tick: the server has the message. Two: another member's program has shown it. -1: it was not sent. */
    tick(number, ticks, name) {
        const line = ownLines.get(number)
        showUnconfirmed()
        if (!line || ticks > 0 && line.ticks >= ticks) return
        const time = shownTime(performance.now() - line.at)
        line.ticks = ticks
        line.mark.classList.toggle("confirmed", ticks === 2)
        line.mark.textContent = ticks === 1 ? `✓ ${time}` : ticks === 2 ? `✓✓ ${clean(name.slice(0, 64))}, ${time}` : "✗ not sent: too many wait"
    },
    status(text) {
        addLine("status", null, text, 0)
    },
}

// The connection

const connection = { state: { kind: "idle" }, since: 0, openings: 0, attempts: 0, outageSince: 0, retryAt: 0 }

function stateWords(state) {
    switch (state.kind) {
    case "connecting": return state.attempt > 1 ? `connecting, attempt ${state.attempt}` : "connecting"
    case "open": return state.isResumed ? "open, session resumed" : "open, new session"
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
const session = new Session(socketURL, observer)
conversation.session = session

element("name").value = startName
element("name").addEventListener("change", event => {
    conversation.name = clean(event.target.value.trim()).slice(0, 64) || conversation.name
    event.target.value = conversation.name
})
element("composer").addEventListener("submit", event => {
    event.preventDefault()
    const text = element("text").value.trim()
    if (text !== "") conversation.typed(text)
    element("text").value = ""
})
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
