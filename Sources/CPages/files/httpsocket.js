"use strict"

// A connection over ordinary requests, for networks that block WebSocket, with the interface of a WebSocket for binary messages.
// Docs/reference/wire-formats.md, "Messages over HTTP", defines the requests.

class HTTPSocket {
    /** The first event of a stream must come in this time. Otherwise a proxy may collect the answer, and the client polls. */
    static firstEvent = 2000
    /** The largest body of a request in bytes. */
    static largestBody = 65536

    /** @param url the URL of the WebSocket that these requests replace */
    constructor(url) {
        this.url = url.replace(/^ws/, "http")
        this.onopen = this.onmessage = this.onclose = null
        this.output = new Uint8Array(0)
        this.sent = 0
        this.input = new Uint8Array(0)
        this.received = 0
        this.told = 0
        this.isSending = this.isClosed = false
        this.stop = new AbortController()
        this.open()
    }

    async open() {
        try {
            const answer = await fetch(this.address({ "im-open": 1 }), { method: "POST", signal: this.stop.signal })
            const terms = new URLSearchParams(answer.status === 201 ? await answer.text() : "")
            if (!terms.get("session")) throw new Error(`HTTP ${answer.status}`)
            this.session = terms.get("session")
            this.window = Number(terms.get("window"))
        } catch (error) {
            return this.end(error.message)
        }
        if (this.isClosed) return
        this.listen()
        this.onopen?.()
    }

    address(items) {
        const url = new URL(this.url)
        for (const [name, value] of Object.entries(items)) url.searchParams.set(name, value)
        return url
    }

    request(items) {
        return this.address({ "im-session": this.session, ...items })
    }

    // Bytes of the server

    listen() {
        const stream = new EventSource(this.request({ "im-receive": "sse", "im-from": this.received }))
        this.stream = stream
        this.timer = setTimeout(() => {
            stream.close()
            this.poll()
        }, HTTPSocket.firstEvent)
        const take = decode => event => {
            clearTimeout(this.timer)
            const bytes = decode(event.data)
            if (Number(event.lastEventId) === this.received + bytes.length) this.take(bytes)
        }
        stream.onmessage = take(text => {
            const content = new TextEncoder().encode(text)
            return join(word(content.length | 0x40000000), content)
        })
        stream.addEventListener("bytes", take(text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0))))
        stream.addEventListener("end", () => this.end("the server has ended the session"))
        stream.onerror = () => {
            // A stream that is broken is requested again by the browser, and one that is refused is not.
            if (stream.readyState === EventSource.CLOSED) this.end("the server does not know the session")
        }
    }

    async poll() {
        for (let failures = 0; !this.isClosed && failures < 5;) {
            try {
                const items = { "im-receive": "long-poll", "im-from": this.received }
                const answer = await fetch(this.request(items), { signal: this.stop.signal })
                if (answer.status === 200) this.take(new Uint8Array(await answer.arrayBuffer()))
                else if (answer.status !== 204) return this.end(`HTTP ${answer.status}`)
                failures = 0
            } catch {
                failures += 1
                await pause(200 * failures)
            }
        }
        this.end("no connection to the server")
    }

    take(bytes) {
        this.received += bytes.length
        this.input = join(this.input, bytes)
        for (;;) {
            if (this.isClosed || this.input.length < 4) break
            const size = new DataView(this.input.buffer, this.input.byteOffset).getUint32(0)
            const length = size & (size >>> 31 ? 0x7fffffff : 0x3fffffff)
            if (this.input.length < 4 + length) break
            const content = this.input.slice(4, 4 + length)
            this.input = this.input.subarray(4 + length)
            if (size >>> 31) this.control(content)
            else this.onmessage?.({ data: content.buffer })
        }
        // The server keeps what was not confirmed, and stops at its limit.
        if (this.stream && this.received - this.told >= this.window / 2) this.write()
    }

    /** A ping is answered by a pong with its token. A close ends the connection. */
    control(content) {
        if (content[0] === 1) {
            content[0] = 2
            this.add(join(word(0x80000000 | content.length), content))
        } else if (content[0] === 3) {
            this.end("closed by the server")
        }
    }

    // Bytes for the server

    send(message) {
        const bytes = new Uint8Array(message.buffer ?? message, message.byteOffset ?? 0, message.byteLength)
        this.add(join(word(bytes.length), bytes))
    }

    add(bytes) {
        this.output = join(this.output, bytes)
        this.write()
    }

    async write() {
        if (this.isSending || this.isClosed) return
        this.isSending = true
        let failures = 0
        do {
            const body = this.output.slice(0, HTTPSocket.largestBody)
            const told = this.received
            try {
                const address = this.request({ "im-at": this.sent, "im-received": told })
                const headers = { "Content-Type": "application/octet-stream" }
                const answer = await fetch(address, { method: "POST", headers, body, signal: this.stop.signal })
                if (answer.status >= 500 && ++failures < 5) {
                    await pause(200 * failures)
                    continue
                }
                if (!answer.ok) return this.end(`HTTP ${answer.status}`)
                this.output = this.output.slice(body.length)
                this.sent += body.length
                this.told = told
                failures = 0
            } catch {
                if (++failures >= 5) return this.end("no connection to the server")
                await pause(200 * failures)
            }
        } while (!this.isClosed && this.output.length > 0)
        this.isSending = false
    }

    // The end

    close() {
        if (this.isClosed) return
        this.isClosed = true
        clearTimeout(this.timer)
        this.stream?.close()
        this.stop.abort()
        if (!this.session) return
        const address = this.request({ "im-at": this.sent, "im-received": this.received, "im-end": 1 })
        fetch(address, { method: "POST", body: this.output.slice(0, HTTPSocket.largestBody), keepalive: true }).catch(() => {})
    }

    end(reason) {
        if (this.isClosed) return
        this.close()
        this.onclose?.({ code: 1006, reason })
    }
}

const word = value => {
    const bytes = new Uint8Array(4)
    new DataView(bytes.buffer).setUint32(0, value)
    return bytes
}

const join = (first, second) => {
    const bytes = new Uint8Array(first.length + second.length)
    bytes.set(first)
    bytes.set(second, first.length)
    return bytes
}

const pause = time => new Promise(done => setTimeout(done, time))
