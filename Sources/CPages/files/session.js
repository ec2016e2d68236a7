"use strict"

// A client of the session envelope over WebSocket, as Docs/reference/wire-formats.md defines it. A connection that breaks is
// replaced, and the session continues: each message reaches the server once and in order.

const Kind = {
    hello: 1, welcome: 2, binary: 3, text: 4, acknowledge: 5, skip: 6, ping: 7, pong: 8, bye: 9, refused: 10,
    repeatedBinary: 13, repeatedText: 14,
}

const refusals = {
    1: "the server has another version of the session",
    2: "the server is full",
    3: "the server saw a violation of the session's rules",
    4: "the session belongs to another client",
    5: "the server has not received the hello in time",
    6: "the server expects a login",
    7: "the server does not serve this client",
    8: "the server cannot serve this client now",
}

const Limits = {
    /** The largest number of a message. Beyond it, numbers of JavaScript are not exact. */
    number: 2 ** 52,
    /** How many messages may be sent and not acknowledged. */
    window: 64,
    /** How many messages wait, at most, and how many bytes of them. */
    outbox: 1000,
    outboxBytes: 4 << 20,
    /** Milliseconds. */
    connect: 10000,
    pingInterval: 2000,
    pingTimeout: 5000,
    /** A connection that has been open for so long resets the backoff. */
    stable: 10000,
    /** The delays of the package's default policy: doubling from the first to the largest, with full jitter. */
    firstDelay: 500,
    largestDelay: 20000,
}

class Session {
    /**
     * @param url the WebSocket of the server
     * @param observer an object with the methods state, frame, roundTrip, started, acknowledged and message
     * @param mayUseRequests whether the server offers the same over ordinary requests
     */
    constructor(url, observer, mayUseRequests = false) {
        this.url = url
        this.mayUseRequests = mayUseRequests
        this.observer = observer
        this.identifier = crypto.getRandomValues(new Uint8Array(16))
        this.sender = crypto.getRandomValues(new Uint8Array(8))
        this.incarnation = new Uint8Array(8)
        this.received = 0
        /** The number of the last message, and the last number that the server has acknowledged. */
        this.last = 0
        this.ended = 0
        this.attempt = 0
        /** The size of the largest message that the server accepts. */
        this.limit = Infinity
        /** Attempts that have failed, for the backoff. */
        this.failures = 0
        /** Attempts since the last connection. */
        this.tries = 0
        this.outbox = []
        this.outboxBytes = 0
        this.socket = null
        this.isOpen = false
        this.timers = {}
        /** Whether the next attempt goes over requests, because WebSocket has not worked. */
        this.usesRequests = typeof WebSocket === "undefined"
    }

    // The user

    /**
     * Sends a message in its turn. The key comes back with the acknowledgement. Returns false if too many messages or bytes
     * wait, or if the message is larger than the server accepts.
     */
    send(bytes, textSize, key) {
        const isFull = this.outbox.length >= Limits.outbox || this.outboxBytes + bytes.length > Limits.outboxBytes
        if (isFull || bytes.length > this.limit) return false
        this.last += 1
        this.outbox.push({ bytes, textSize, key, number: this.last, sentAt: 0, wasSent: false })
        this.outboxBytes += bytes.length
        this.flush()
        return true
    }

    connect() {
        this.stopTimers()
        this.attempt += 1
        this.tries += 1
        this.tell("state", { kind: "connecting", attempt: this.tries })
        const socket = this.usesRequests ? new HTTPSocket(this.url) : new WebSocket(this.url)
        socket.binaryType = "arraybuffer"
        this.socket = socket
        this.timers.connect = setTimeout(() => this.lost("no answer within 10 s"), Limits.connect)
        socket.onopen = () => this.sayHello()
        socket.onclose = event => this.lost(this.isOpen ? `the connection ended (${event.code})` : "no connection to the server")
        socket.onmessage = event => {
            if (typeof event.data === "string") return this.lost("the server sent a text outside of the session")
            this.take(new Uint8Array(event.data))
        }
    }

    /** Ends the connection, as a broken network would. The session continues. */
    break() {
        if (this.socket) this.lost("you broke the connection")
    }

    /** Ends the connection, and makes no other one before `connect`. */
    stayOffline() {
        this.drop()
        this.failures = 0
        this.tell("state", { kind: "offline" })
    }

    /** Ends the session. */
    end() {
        if (this.isOpen) this.write(Kind.bye, new Uint8Array(0), "bye")
        this.drop(1000, "")
    }

    /**
     * Calls a method of the observer and returns its result. An error of the observer is reported like one that nobody
     * catches, and the session goes on: otherwise one message of another member could end it.
     */
    tell(method, ...values) {
        try {
            return this.observer[method](...values)
        } catch (error) {
            reportError(error)
            return undefined
        }
    }

    // The connection

    drop(code = 4000, reason = "broken on request") {
        this.stopTimers()
        const socket = this.socket
        this.socket = null
        this.isOpen = false
        if (!socket) return
        socket.onopen = socket.onclose = socket.onmessage = null
        socket.close(code, reason)
    }

    lost(reason) {
        const wasStable = this.isOpen && performance.now() - this.openedAt >= Limits.stable
        // Where one way does not reach the server, the other one may.
        if (!this.isOpen && this.mayUseRequests) this.usesRequests = typeof WebSocket === "undefined" || !this.usesRequests
        this.drop()
        if (wasStable) this.failures = 0
        const delay = Math.random() * Math.min(Limits.largestDelay, Limits.firstDelay * 2 ** this.failures)
        this.failures += 1
        this.tell("state", { kind: "waiting", delay, reason })
        this.timers.retry = setTimeout(() => this.connect(), delay)
    }

    refuse(code) {
        const reason = refusals[code] ?? "the server refuses the session"
        if (![1, 4, 6, 7].includes(code)) return this.lost(reason)
        this.drop()
        this.tell("state", { kind: "closed", reason })
    }

    stopTimers() {
        for (const timer of Object.values(this.timers)) clearTimeout(timer)
        this.timers = {}
    }

    ping() {
        if (!this.isOpen || this.timers.answer) return
        const token = new Uint8Array(4)
        crypto.getRandomValues(token)
        this.pending = { token, at: performance.now() }
        this.write(Kind.ping, token, "ping")
        this.timers.answer = setTimeout(() => this.lost("no answer to a ping within 5 s"), Limits.pingTimeout)
    }

    // Frames

    sayHello() {
        const body = new Uint8Array(61)
        const view = new DataView(body.buffer)
        body[0] = 3
        body.set(this.identifier, 1)
        body.set(this.incarnation, 17)
        view.setBigUint64(25, BigInt(this.received))
        view.setUint32(33, this.attempt)
        // This side accepts messages of any size.
        view.setBigUint64(37, 0xffffffffffffffffn)
        view.setBigUint64(45, BigInt(this.ended + 1))
        body.set(this.sender, 53)
        this.write(Kind.hello, body, `hello, attempt ${this.attempt}`)
    }

    /** Sends the messages that fit into the window. */
    flush() {
        if (!this.isOpen) return
        for (const message of this.outbox.slice(0, Limits.window)) {
            if (message.sentAt > 0) continue
            message.sentAt = performance.now()
            const body = new Uint8Array(8 + message.bytes.length)
            new DataView(body.buffer).setBigUint64(0, BigInt(message.number))
            body.set(message.bytes, 8)
            const kind = message.wasSent ? Kind.repeatedText : Kind.text
            message.wasSent = true
            this.write(kind, body, `message #${message.number}`, message.bytes.length, message.textSize)
        }
    }

    /** Writes a frame of which `content` bytes are a message, and of these `text` bytes its text. */
    write(kind, body, name, content = 0, text = 0) {
        // The observer may have ended the connection.
        if (!this.socket) return
        const frame = new Uint8Array(1 + body.length)
        frame[0] = kind
        frame.set(body, 1)
        this.socket.send(frame)
        this.tell("frame", "sent", name, layers(frame.length, content, text, true))
    }

    take(frame) {
        const view = new DataView(frame.buffer)
        const number = at => frame.length >= at + 8 ? Number(view.getBigUint64(at)) : -1
        const note = (name, content = 0, text = 0) =>
            this.tell("frame", "received", name, layers(frame.length, content, text, false))
        clearTimeout(this.timers.answer)
        this.timers.answer = undefined
        switch (frame[0]) {
        case Kind.welcome:
            note("welcome")
            if (frame.length !== 41 || number(25) < 1 || number(25) > Limits.number || this.isOpen) return this.lost("a wrong welcome of the server")
            return this.welcome(frame.slice(1, 9), number(9), number(17), number(25))
        case Kind.binary:
        case Kind.text:
        case Kind.repeatedBinary:
        case Kind.repeatedText: {
            const content = frame.subarray(9)
            const isNext = number(1) === this.received + 1
            if (number(1) > this.received + 1 || number(1) < 1 || !this.isOpen) return this.lost("a wrong number in the session")
            if (isNext) this.received += 1
            const size = isNext ? this.tell("message", content) ?? 0 : 0
            note(`message #${number(1)}`, content.length, size)
            return this.acknowledge()
        }
        case Kind.skip: {
            const isRange = frame.length === 17 && number(1) >= 1 && number(9) >= number(1) && number(9) <= Limits.number
            if (!isRange || number(1) > this.received + 1 || !this.isOpen) return this.lost("a wrong number in the session")
            this.received = Math.max(this.received, number(9))
            note(`skip #${number(1)} to #${number(9)}`)
            return this.acknowledge()
        }
        case Kind.acknowledge:
            note(`acknowledge #${number(1)}`)
            if (frame.length !== 9 || number(1) > this.last || !this.isOpen) return this.lost("a wrong acknowledgement")
            return this.forget(number(1))
        case Kind.ping:
            note("ping")
            return this.write(Kind.pong, frame.subarray(1), "pong")
        case Kind.pong:
            note("pong")
            if (!this.pending?.token.every((byte, index) => byte === frame[1 + index])) return
            this.tell("roundTrip", performance.now() - this.pending.at)
            this.pending = null
            return
        case Kind.bye:
            note("bye")
            return this.lost("the server has ended the session")
        case Kind.refused:
            note("refused")
            return this.refuse(frame[1])
        default:
            return this.lost("the server does not speak the session envelope")
        }
    }

    welcome(incarnation, received, limit, first) {
        this.limit = limit
        const isResumed = incarnation.every((byte, index) => byte === this.incarnation[index])
        if (isResumed && received > this.last) return this.lost("a wrong welcome of the server")
        if (isResumed) {
            this.forget(received)
            this.received = Math.max(this.received, first - 1)
        } else {
            this.incarnation = incarnation
            this.received = first - 1
        }
        for (const message of this.outbox) message.sentAt = 0
        this.stopTimers()
        this.timers.ping = setInterval(() => this.ping(), Limits.pingInterval)
        this.isOpen = true
        this.tries = 0
        this.openedAt = performance.now()
        this.tell("state", { kind: "open", isResumed, carrier: this.usesRequests ? "HTTP" : "WebSocket" })
        this.flush()
        if (!isResumed) this.tell("started")
        this.ping()
    }

    acknowledge() {
        const body = new Uint8Array(8)
        new DataView(body.buffer).setBigUint64(0, BigInt(this.received))
        this.write(Kind.acknowledge, body, `acknowledge #${this.received}`)
    }

    /** Forgets the messages up to a number, which the server has. */
    forget(number) {
        this.ended = Math.max(this.ended, number)
        while (this.outbox.length > 0 && this.outbox[0].number <= number) {
            const message = this.outbox.shift()
            this.outboxBytes -= message.bytes.length
            this.tell("acknowledged", message.key)
        }
        this.flush()
    }
}

/** How the bytes of a frame are divided. A WebSocket frame has a header of 2, 4 or 10 bytes, and from clients a mask of 4. */
function layers(session, content, text, isFromClient) {
    const header = (session < 126 ? 2 : session < 65536 ? 4 : 10) + (isFromClient ? 4 : 0)
    return { text, json: content - text, session: session - content, websocket: header }
}
