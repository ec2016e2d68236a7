// The rules of a chat, as `imbench chat` has them (Docs/reference/chat.md): receipts, repetition after a lost session, and the
// order of each sender.

const encoder = new TextEncoder()
const decoder = new TextDecoder()

class Conversation {
    /** @param view an object with the methods own, other, tick and status */
    constructor(name, room, view) {
        this.name = name
        this.room = room
        this.view = view
        const random = crypto.getRandomValues(new Uint32Array(2))
        this.instance = random[0].toString(36) + random[1].toString(36)
        this.last = 0
        /** The messages that no other member has confirmed, by their numbers. */
        this.kept = new Map()
        /** Identifiers of messages that were shown, the oldest first. */
        this.seen = new Set()
        /** Messages whose predecessor has not arrived. */
        this.held = []
    }

    typed(text) {
        // Fewer than the outbox takes, because all can be sent again at once.
        if (this.kept.size >= 900) this.kept.delete(this.kept.keys().next().value)
        this.last += 1
        const message = { text, sentAtMs: Date.now(), isInFlight: false, mustRepeat: false }
        this.kept.set(this.last, message)
        this.view.own(this.last, this.name, message)
        this.sendKept(this.last)
    }

    /** A new session has begun, in which the server has none of the earlier messages. */
    started() {
        this.post({ kind: "KIND_SYSTEM", attributes: { event: "here", instance: this.instance } })
        for (const [number, message] of this.kept) if (!message.isInFlight) this.sendKept(number)
    }

    /** The server has the message with this number; null for one that has none. */
    acknowledged(number) {
        const message = this.kept.get(number)
        if (number !== null) this.view.tick(number, 1)
        if (!message) return
        message.isInFlight = false
        if (message.mustRepeat) this.sendKept(number)
    }

    /** Returns how many bytes of a received message are its text. */
    received(bytes) {
        const message = readMessage(bytes)
        if (!message) {
            this.view.status(`${bytes.length} received bytes are no message`)
            return 0
        }
        const isForAll = message.kind === "KIND_SYSTEM" && message.conversation === ""
        if (message.conversation === this.room || isForAll) this.take(message)
        return encoder.encode(message.text).length
    }

    take(message) {
        switch (message.kind) {
        case "KIND_READ":
        case "KIND_TYPING":
            return
        case "KIND_RECEIPT": {
            const [instance, number] = String(message.replyTo ?? "").split("-")
            if (instance !== this.instance) return
            this.kept.delete(Number(number))
            return this.view.tick(Number(number), 2, message.sender)
        }
        case "KIND_SYSTEM":
            if (message.attributes.event === "here") {
                if (message.attributes.instance === this.instance) return
                this.view.status(`${message.sender} is here`)
                for (const [number, kept] of this.kept) {
                    if (kept.isInFlight) kept.mustRepeat = true
                    else this.sendKept(number)
                }
                return
            }
            this.view.status(`${message.sender}: ${message.text}`)
            return message.attributes.event === "missed" ? this.started() : undefined
        }
        if (message.id.startsWith(this.instance + "-")) return
        if (this.seen.has(message.id)) return this.confirm(message)
        const after = message.attributes.after
        this.held = this.held.filter(held => held.id === "" || held.id !== message.id)
        if (after && !this.seen.has(after) && this.held.length < 256) {
            this.held.push(message)
            setTimeout(() => this.release(message), 30000)
            return
        }
        this.show(message)
    }

    /** Shows a message that is still held. */
    release(message) {
        if (!this.held.includes(message)) return
        this.held = this.held.filter(held => held !== message)
        this.show(message)
    }

    /** Shows a message, and those that waited for it. */
    show(message) {
        for (const next = [message]; next.length > 0;) {
            const shown = next.shift()
            this.view.other(shown)
            if (shown.id === "") continue
            this.seen.add(shown.id)
            if (this.seen.size > 4096) this.seen.delete(this.seen.values().next().value)
            this.confirm(shown)
            next.push(...this.held.filter(held => held.attributes.after === shown.id))
            this.held = this.held.filter(held => held.attributes.after !== shown.id)
        }
    }

    confirm(message) {
        this.post({ kind: "KIND_RECEIPT", replyTo: message.id })
    }

    sendKept(number) {
        const message = this.kept.get(number)
        const earlier = [...this.kept.keys()].filter(other => other < number).pop()
        const fields = { id: `${this.instance}-${number}`, sentAtMs: String(message.sentAtMs), text: message.text }
        if (earlier) fields.attributes = { after: `${this.instance}-${earlier}` }
        message.mustRepeat = false
        message.isInFlight = this.post(fields, number)
        if (!message.isInFlight) {
            this.kept.delete(number)
            this.view.tick(number, -1)
        }
    }

    post(fields, number = null) {
        const message = { conversation: this.room, sender: this.name, ...fields }
        return this.session.send(encoder.encode(JSON.stringify(message)), encoder.encode(message.text ?? "").length, number)
    }
}

// Messages. Other members may send protobuf, because a room passes messages on as they are.

const kinds = ["TEXT", "IMAGE", "FILE", "SYSTEM", "RECEIPT", "READ", "TYPING", "EDIT", "RECALL"].map(name => "KIND_" + name)

/** A message in JSON or protobuf; null if it is neither. */
function readMessage(bytes) {
    const empty = { id: "", conversation: "", sender: "", sentAtMs: 0, kind: "KIND_TEXT", text: "", attributes: {} }
    try {
        const isJSON = bytes.find(byte => ![0x20, 0x09, 0x0a, 0x0d].includes(byte)) === 0x7b
        const fields = isJSON ? JSON.parse(decoder.decode(bytes)) : readProtobuf(bytes)
        const message = { ...empty, ...fields }
        if (typeof message.kind === "number") message.kind = kinds[message.kind] ?? "KIND_TEXT"
        for (const name of ["id", "conversation", "sender", "text", "kind"]) {
            if (typeof message[name] !== "string") return null
        }
        message.sentAtMs = Number(message.sentAtMs)
        message.attributes = Object(message.attributes)
        return message
    } catch {
        return null
    }
}

/** The fields of Protos/chat.proto that this page shows. */
function readProtobuf(bytes) {
    const names = { 1: "id", 2: "conversation", 3: "sender", 4: "sentAtMs", 5: "kind", 6: "text", 7: "replyTo" }
    const fields = { attributes: {} }
    for (const [number, value] of protobufFields(bytes)) {
        if (number === 10) {
            const entry = Object.fromEntries(protobufFields(value))
            fields.attributes[decoder.decode(entry[1] ?? new Uint8Array())] = decoder.decode(entry[2] ?? new Uint8Array())
        } else if (names[number]) {
            fields[names[number]] = typeof value === "number" ? value : decoder.decode(value)
        }
    }
    return fields
}

/** Pairs of a field's number and its value: a number, or bytes. */
function protobufFields(bytes) {
    let at = 0
    const varint = () => {
        let [value, scale] = [0, 1]
        while (true) {
            if (at >= bytes.length || scale > 2 ** 63) throw new RangeError("a number is cut off")
            const byte = bytes[at++]
            value += (byte & 0x7f) * scale
            if (byte < 0x80) return value
            scale *= 128
        }
    }
    const take = size => {
        if (size > bytes.length - at) throw new RangeError("a field is cut off")
        at += size
        return bytes.subarray(at - size, at)
    }
    const fields = []
    while (at < bytes.length) {
        const key = varint()
        const [number, type] = [Math.floor(key / 8), key % 8]
        const value = type === 0 ? varint() : type === 1 ? take(8) : type === 2 ? take(varint()) : type === 5 ? take(4) : null
        if (value === null) throw new RangeError("a field has an unknown type")
        fields.push([number, value])
    }
    return fields
}
