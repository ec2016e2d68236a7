// The rules of a chat, as `imbench chat` has them (Docs/reference/chat.md): receipts, repetition after a lost session, and the
// order of each sender.

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** What is stored for others, in numbers and in characters. The milliseconds are the longest hold, and the pause between two
 *  greetings that notices cause. */
const Stored = {
    kept: 900, keptText: 1 << 20, held: 256, heldText: 4 << 20, seen: 4096, identifier: 256, members: 1000, instance: 32,
    hold: 30000, pause: 10000,
}

class Conversation {
    /** @param view an object with the methods own, other, acknowledged, read, failed, members and status */
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
        /** Messages whose predecessor has not arrived, in the order of their arrival, and the characters that they take. */
        this.held = []
        this.heldText = 0
        /** How many messages were held so far, and how many when the running timer began; null without a timer. */
        this.heldCount = 0
        this.waitingFor = null
        /** The other members, by the instances of their programs. */
        this.members = new Set()
        /** The first message that was shown of each program, by its instance. */
        this.firsts = new Map()
        /** When a notice of missed messages was last answered. */
        this.answeredAt = -Infinity
    }

    typed(text) {
        // Fewer than the outbox takes, because all can be sent again at once.
        let texts = text.length
        for (const kept of this.kept.values()) texts += kept.text.length
        while (this.kept.size > 0 && (this.kept.size >= Stored.kept || texts > Stored.keptText)) {
            const [number, oldest] = this.kept.entries().next().value
            texts -= oldest.text.length
            this.kept.delete(number)
        }
        this.last += 1
        const message = { text, sentAtMs: Date.now(), isInFlight: false, mustRepeat: false }
        this.kept.set(this.last, message)
        this.view.own(this.last, this.name, message)
        this.sendKept(this.last)
    }

    /** A new session has begun, in which the server has none of the earlier messages. */
    started() {
        // The server lists the members, after its history.
        this.members.clear()
        this.notify("here")
        for (const [number, message] of this.kept) if (!message.isInFlight) this.sendKept(number)
    }

    /** The server tells the others the present name when the member leaves. */
    rename(name) {
        if (name === this.name) return
        this.name = name
        this.notify("here")
    }

    notify(event) {
        this.post({ kind: "KIND_SYSTEM", attributes: { event, instance: this.instance } })
    }

    /** The server has the message with this number; null for one that has none. */
    acknowledged(number) {
        const message = this.kept.get(number)
        if (number !== null) this.view.acknowledged(number)
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
        case "KIND_RECEIPT":
            return this.confirmed(message)
        case "KIND_SYSTEM":
            return this.takeNotice(message)
        }
        if (message.id.startsWith(this.instance + "-")) return
        if (this.seen.has(message.id)) return this.confirm(message)
        const after = message.attributes.after
        const incoming = { id: message.id, after, sender: message.sender, sentAtMs: message.sentAtMs, text: message.text }
        // The later copy may have no predecessor.
        if (incoming.id !== "") this.takeHeld(held => held.id === incoming.id)
        const hasRoom = this.held.length < Stored.held && this.heldText + heldSize(incoming) <= Stored.heldText
        if (incoming.id !== "" && after && !this.seen.has(after) && hasRoom) return this.hold(incoming)
        this.show(incoming)
    }

    confirmed({ replyTo, attributes, sender }) {
        const [instance, digits] = replyTo.split("-", 2)
        const number = Number(digits)
        if (instance !== this.instance || !(number >= 1 && number <= this.last)) return
        this.kept.delete(number)
        if (attributes.first !== "") {
            // Earlier messages of this page are older than what the server stores for new members.
            for (const [other, kept] of this.kept) if (other < number && !kept.isInFlight) this.kept.delete(other)
        }
        if (attributes.instance !== this.instance) this.view.read(number, attributes.instance, sender)
    }

    takeNotice({ conversation, sender, text, mentions, attributes }) {
        const { event, instance, more } = attributes
        if (instance === this.instance) return
        switch (event) {
        case "here":
            this.enter([instance])
            this.view.members()
            return this.view.status(" is here", sender)
        case "members":
            if (conversation !== "") return
            this.enter(mentions)
            if (more !== "") return
            this.view.members()
            // The list follows the history, so that members send again only what the history lacks.
            if (this.members.size > 0) this.notify("repeat")
            return
        case "gone":
            if (!this.members.delete(instance)) return
            this.view.members()
            return this.view.status(" has left", sender)
        case "repeat":
            for (const [number, kept] of this.kept) {
                if (kept.isInFlight) kept.mustRepeat = true
                else this.sendKept(number)
            }
            return
        }
        this.view.status(`: ${text}`, sender)
        if (event === "missed") this.missed()
    }

    enter(instances) {
        for (const instance of instances) {
            const isOther = instance !== "" && instance !== this.instance && instance.length <= Stored.instance
            if (isOther && this.members.size < Stored.members) this.members.add(instance)
        }
    }

    /** The server has dropped messages for this member. Anybody can forge the notice, so it has an effect now and then only. */
    missed() {
        const now = performance.now()
        if (now - this.answeredAt < Stored.pause) return
        this.answeredAt = now
        this.started()
    }

    hold(incoming) {
        this.heldCount += 1
        incoming.heldAs = this.heldCount
        this.held.push(incoming)
        this.heldText += heldSize(incoming)
        this.startWaiting()
    }

    /** One timer for all held messages. Each is held for the longest hold at least, and twice that at most. */
    startWaiting() {
        if (this.waitingFor !== null || this.held.length === 0) return
        this.waitingFor = this.heldCount
        setTimeout(() => this.waited(), Stored.hold)
    }

    /** Shows the messages that were already held when the timer began. */
    waited() {
        const last = this.waitingFor
        this.waitingFor = null
        while (this.held.length > 0 && this.held[0].heldAs <= last) {
            const oldest = this.held[0]
            this.takeHeld(held => held === oldest)
            this.show(oldest)
        }
        this.startWaiting()
    }

    /** Removes and returns the held messages for which a condition is true. */
    takeHeld(condition) {
        const taken = this.held.filter(condition)
        if (taken.length === 0) return taken
        this.held = this.held.filter(held => !condition(held))
        for (const held of taken) this.heldText -= heldSize(held)
        return taken
    }

    /** Shows a message, and those that waited for it. */
    show(message) {
        for (const next = [message]; next.length > 0;) {
            const shown = next.shift()
            this.view.other(shown)
            if (shown.id === "") continue
            this.seen.add(shown.id)
            if (this.seen.size > Stored.seen) this.seen.delete(this.seen.values().next().value)
            const program = programOf(shown.id)
            if (!this.firsts.has(program) && this.firsts.size < Stored.members) this.firsts.set(program, shown.id)
            this.confirm(shown)
            next.push(...this.takeHeld(held => held.after === shown.id))
        }
    }

    confirm(message) {
        const attributes = { instance: this.instance }
        if (this.firsts.get(programOf(message.id)) === message.id) attributes.first = "yes"
        this.post({ kind: "KIND_RECEIPT", replyTo: message.id, attributes })
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
            this.view.failed(number)
        }
    }

    post(fields, number = null) {
        const message = { conversation: this.room, sender: this.name, ...fields }
        return this.session.send(encoder.encode(JSON.stringify(message)), encoder.encode(message.text ?? "").length, number)
    }
}

// Messages. Other members may send protobuf or XML, because a room passes messages on as they are.

const kinds = ["TEXT", "IMAGE", "FILE", "SYSTEM", "RECEIPT", "READ", "TYPING", "EDIT", "RECALL"].map(name => "KIND_" + name)

/** The instance of the program that sent a message. */
function programOf(id) {
    return id.slice(0, Math.max(0, id.lastIndexOf("-")))
}

/** How many characters of a held message are stored. */
function heldSize(message) {
    return message.id.length + message.after.length + message.sender.length + message.text.length
}

/**
 * A message in JSON, protobuf or XML; null if it is none of them, or if a field has the wrong type. Only the fields that the page uses
 * are read, and each has its type afterwards, whatever another member has sent.
 */
function readMessage(bytes) {
    try {
        const first = bytes.find(byte => ![0x20, 0x09, 0x0a, 0x0d].includes(byte))
        const fields =
            first === 0x7b ? JSON.parse(decoder.decode(bytes))
            : first === 0x3c ? readXML(decoder.decode(bytes)) : readProtobuf(bytes)
        const field = name => Object.hasOwn(fields, name) ? fields[name] ?? undefined : undefined
        const message = {}
        for (const name of ["id", "conversation", "sender", "text", "replyTo"]) message[name] = textOf(field(name))
        const [kind, time] = [field("kind") ?? 0, field("sentAtMs") ?? 0]
        if (!["number", "string"].includes(typeof kind) || !["number", "string"].includes(typeof time)) return null
        message.kind = typeof kind === "number" ? kinds[kind] ?? kinds[0] : kind
        message.sentAtMs = Number.isFinite(Number(time)) ? Number(time) : 0
        message.mentions = mentionsOf(field("mentions") ?? [])
        message.attributes = attributesOf(field("attributes") ?? {})
        // What is too long for the lists of identifiers is as if it were missing.
        if (message.id.length > Stored.identifier) message.id = ""
        if (message.attributes.instance.length > Stored.instance) message.attributes.instance = ""
        return message
    } catch {
        return null
    }
}

/** A field that is a text or missing. */
function textOf(value = "") {
    if (typeof value !== "string") throw new TypeError("a field is no text")
    return value
}

function mentionsOf(mentions) {
    if (!Array.isArray(mentions)) throw new TypeError("the mentions are no list")
    return mentions.map(mention => textOf(mention))
}

const usedAttributes = ["event", "instance", "after", "first", "more"]

/** The attributes that a chat uses; the empty text stands for a missing one. */
function attributesOf(attributes) {
    if (typeof attributes !== "object" || Array.isArray(attributes)) throw new TypeError("the attributes are no object")
    return Object.fromEntries(usedAttributes.map(name => [name, textOf(Object.hasOwn(attributes, name) ? attributes[name] : "")]))
}

/** The fields that this page shows of a message in XML. */
function readXML(text) {
    // Without declarations, there are no entities but those of XML itself.
    if (text.includes("<!DOCTYPE")) throw new SyntaxError("a document type declaration")
    const root = new DOMParser().parseFromString(text, "application/xml").documentElement
    if (root.nodeName !== "message" || root.querySelector("parsererror")) throw new SyntaxError("no message")
    const plain = (content, encoding) => encoding === null ? content
        : decoder.decode(Uint8Array.from(atob(content.trim()), unit => unit.charCodeAt(0)))
    const fields = { mentions: [], attributes: {} }
    for (const element of root.children) {
        const name = element.nodeName
        const content = plain(element.textContent, element.getAttribute("encoding"))
        if (name === "mentions") {
            fields.mentions.push(content)
        } else if (name === "attributes") {
            const key = plain(element.getAttribute("key") ?? "", element.getAttribute("keyEncoding"))
            if (usedAttributes.includes(key)) fields.attributes[key] = content
        } else if (name === "kind") {
            fields.kind = /^\d+$/.test(content) ? Number(content) : content
        } else if (["id", "conversation", "sender", "sentAtMs", "text", "replyTo"].includes(name)) {
            fields[name] = content
        }
    }
    return fields
}

/** The fields of Protos/chat.proto that this page shows. */
function readProtobuf(bytes) {
    const names = { 1: "id", 2: "conversation", 3: "sender", 4: "sentAtMs", 5: "kind", 6: "text", 7: "replyTo" }
    const fields = { mentions: [], attributes: {} }
    for (const [number, value] of protobufFields(bytes)) {
        if (number === 10) {
            if (typeof value === "number") throw new TypeError("an attribute is a number")
            const entry = { 1: "", 2: "" }
            for (const [part, content] of protobufFields(value)) {
                if (part === 1 || part === 2) entry[part] = typeof content === "number" ? content : decoder.decode(content)
            }
            if (usedAttributes.includes(entry[1])) fields.attributes[entry[1]] = entry[2]
        } else if (number === 8 || names[number]) {
            const content = typeof value === "number" ? value : decoder.decode(value)
            if (number === 8) fields.mentions.push(content)
            else fields[names[number]] = content
        }
    }
    return fields
}

/** Yields pairs of a field's number and its value: a number, or bytes. */
function* protobufFields(bytes) {
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
    while (at < bytes.length) {
        const key = varint()
        const [number, type] = [Math.floor(key / 8), key % 8]
        const value = type === 0 ? varint() : type === 1 ? take(8) : type === 2 ? take(varint()) : type === 5 ? take(4) : null
        if (value === null) throw new RangeError("a field has an unknown type")
        yield [number, value]
    }
}
