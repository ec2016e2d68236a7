// Gives the scripts of the chat page mutated messages and frames. The value is "ok", or what went wrong. It runs in the page,
// with its own view, so that the code that shows messages is also reached.
async (seed, rounds) => {
    let state = seed >>> 0
    const random = limit => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0
        return Math.floor(state / 2 ** 32 * limit)
    }
    const pick = list => list[random(list.length)]
    const failures = []
    const check = (isTrue, text) => { if (!isTrue && failures.length < 5) failures.push(text) }

    // A session over a socket that only records.
    session.stayOffline()
    class RecordingSocket {
        constructor() { this.frames = [] }
        send(frame) { this.frames.push(frame) }
        close() {}
    }
    const planned = new Error("an error of the observer")
    const original = window.WebSocket
    window.WebSocket = RecordingSocket
    const onError = event => {
        if (event.error !== planned) check(false, `error: ${event.error?.stack ?? event.message}`)
        event.preventDefault()
    }
    addEventListener("error", onError)

    const checkedView = {
        own: (...values) => view.own(...values),
        other(message) {
            check(["sender", "text"].every(name => typeof message[name] === "string"), "a text that is none is shown")
            check(Number.isFinite(message.sentAtMs), "a time that is none is shown")
            view.other(message)
        },
        acknowledged: number => view.acknowledged(number),
        read(number, instance, name) {
            check([instance, name].every(text => typeof text === "string"), "a reader without a name")
            view.read(number, instance, name)
        },
        failed: number => view.failed(number),
        members: () => view.members(),
        status(text, sender = "") {
            check([text, sender].every(part => typeof part === "string"), "a status that is no text")
            view.status(text, sender)
        },
    }
    const talk = new Conversation("ann", "lobby", checkedView)
    const observer = {
        state: () => {}, frame: () => {}, roundTrip: () => {}, started: () => talk.started(),
        acknowledged: key => talk.acknowledged(key),
        message: bytes => {
            if (random(50) === 0) throw planned
            return talk.received(bytes)
        },
    }
    const fresh = () => {
        const made = new Session("ws://fuzz", observer)
        talk.session = made
        made.connect()
        made.socket.onopen()
        made.take(frame(2, [1, 2, 3, 4, 5, 6, 7, 8], number(0), number(1 << 24), number(1), number(7)))
        return made
    }
    const number = value => {
        const bytes = new Uint8Array(8)
        new DataView(bytes.buffer).setBigUint64(0, BigInt(value))
        return bytes
    }
    const frame = (kind, ...parts) => new Uint8Array([kind, ...parts.flatMap(part => [...part])])
    let fuzzed = fresh()

    // Messages.
    const deep = depth => depth === 0 ? "x" : { x: deep(depth - 1) }
    const values = [
        { toString: 1 }, { valueOf: 1, toString: null }, { toString: null }, null, [], [1], {}, true, 0, -1, 1e400, 1e308, "", "a",
        "\ud800", "x".repeat(5000), "__proto__", deep(50), { split: 1 }, { startsWith: 1, slice: 1, length: 7 }, [[[[]]]],
        "KIND_SYSTEM", "KIND_RECEIPT", "here", "missed", "lobby", "9".repeat(400), "-", "m-1", "m-2", "é", "e\u0301",
    ]
    const names = [
        "id", "conversation", "sender", "sentAtMs", "kind", "text", "replyTo", "attributes", "__proto__", "toString", "length",
        "event", "instance", "after", "first", "more", "mentions", "constructor",
    ]
    let last = 0
    const whole = () => {
        const number = last += 1
        const message = { id: `m-${number}`, conversation: "lobby", sender: "bob", sentAtMs: "1767225600000", text: `text ${number}` }
        switch (random(10)) {
        case 0: return { ...message, attributes: { after: `m-${number + random(5) - 3}` } }
        case 1: return { conversation: "lobby", kind: "KIND_RECEIPT", sender: "bob", replyTo: `${talk.instance}-${random(20)}` }
        case 2: return { conversation: "lobby", kind: "KIND_SYSTEM", sender: "bob", attributes: { event: "here", instance: "b" } }
        case 3: return { kind: "KIND_SYSTEM", sender: "server", text: "you have missed 3 messages", attributes: { event: "missed" } }
        case 4: return { ...message, id: `m-${1 + random(number)}` }
        case 5: return { kind: "KIND_SYSTEM", sender: "server", mentions: [`m${number}`, "b"], attributes: { event: "members" } }
        case 6: {
            const attributes = { event: pick(["here", "gone", "repeat"]), instance: `m${random(2000)}` }
            return { conversation: "lobby", kind: "KIND_SYSTEM", sender: "bob", attributes }
        }
        case 7:
            return {
                conversation: "lobby", kind: "KIND_RECEIPT", sender: "bob", replyTo: `${talk.instance}-${random(20)}`,
                attributes: { instance: `m${number}`, first: "yes" },
            }
        default: return message
        }
    }
    const varint = value => value < 128 ? [value] : [value % 128 + 128, ...varint(Math.floor(value / 128))]
    const field = (number, content) => {
        const bytes = typeof content === "string" ? [...encoder.encode(content)] : content
        return [...varint(number * 8 + 2), ...varint(bytes.length), ...bytes]
    }
    const protobuf = message => [
        ...field(1, message.id ?? ""), ...field(2, message.conversation ?? ""), ...field(3, message.sender ?? ""),
        ...[4 * 8, ...varint(1767225600000)], ...[5 * 8, Math.max(0, kinds.indexOf(message.kind))], ...field(6, message.text ?? ""),
        ...field(7, message.replyTo ?? ""), ...(message.mentions ?? []).flatMap(mention => field(8, mention)),
        ...Object.entries(message.attributes ?? {}).flatMap(([key, value]) => field(10, [...field(1, key), ...field(2, value)])),
    ]
    const escaped = text => String(text).replace(/[<>&"]/g, letter => `&#${letter.charCodeAt(0)};`)
    const element = (name, content, key = "") => `<${name}${key}>${escaped(content)}</${name}>`
    const xml = message => [...encoder.encode([
        "<message>",
        ...["id", "conversation", "sender", "sentAtMs", "kind", "text", "replyTo"].filter(name => name in message)
            .map(name => element(name, message[name])),
        ...(message.mentions ?? []).map(mention => element("mentions", mention)),
        ...Object.entries(message.attributes ?? {}).map(([key, value]) => element("attributes", value, ` key="${escaped(key)}"`)),
        "</message>",
    ].join(""))]
    const damaged = bytes => {
        const changed = [...bytes]
        for (let count = random(4); count > 0 && changed.length > 0; count--) {
            const at = random(changed.length)
            switch (random(4)) {
            case 0: changed[at] = random(256); break
            case 1: changed.splice(at, 1 + random(8)); break
            case 2: changed.splice(at, 0, ...changed.slice(at, at + random(40))); break
            default: changed[at] ^= 1 << random(8)
            }
        }
        return changed
    }
    const isPlain = value => typeof value === "object" && value !== null && !Array.isArray(value)
    const message = () => {
        const made = whole()
        if (random(3) === 0) return damaged(pick([protobuf, xml])(made))
        for (let count = random(3); count > 0; count--) {
            const holder = random(4) === 0 && isPlain(made.attributes) ? made.attributes : made
            // A copy, because a value that is also changed could come to hold itself, which JSON cannot write.
            Object.defineProperty(holder, pick(names), { value: structuredClone(pick(values)), enumerable: true, configurable: true, writable: true })
        }
        const bytes = [...encoder.encode(JSON.stringify(made))]
        return random(4) === 0 ? damaged(bytes) : bytes
    }
    const take = bytes => {
        try {
            fuzzed.take(bytes)
        } catch (error) {
            check(false, `a frame throws: ${error?.stack ?? error}`)
        }
    }

    for (let round = 0; round < rounds && failures.length === 0; round++) {
        if (random(20) === 0) talk.typed(`typed ${round}`)
        // A whole frame is counted and acknowledged, whatever its message does to the page.
        const next = fuzzed.received + 1
        fuzzed.socket.frames = []
        const content = message()
        take(frame(pick([3, 4, 13, 14]), number(next), content))
        const acknowledgement = frame(5, number(next)).join()
        check(fuzzed.received === next, `the message is not counted: ${decoder.decode(new Uint8Array(content))}`)
        check(fuzzed.isOpen && fuzzed.socket.frames.some(sent => sent.join() === acknowledgement), "no acknowledgement")
        if (random(3) === 0 && fuzzed.isOpen && fuzzed.last > 0) take(frame(5, number(fuzzed.last)))
        // A damaged one is too, or it ends the connection, and the session returns.
        if (fuzzed.isOpen && random(4) === 0) {
            const whole = pick([
                frame(3, number(fuzzed.received + random(3)), [0x7b, 0x7d]), frame(2, number(5), number(0), number(9), number(1), number(7)),
                frame(5, number(random(100))),
                frame(6, number(fuzzed.received + 1), number(fuzzed.received + 1 + random(3))), frame(7, [1, 2, 3, 4]), frame(8, [1, 2, 3, 4]),
                frame(9), frame(10, [random(8)]),
            ])
            take(new Uint8Array(damaged(whole)))
        }
        check(fuzzed.outbox.length <= Limits.outbox && fuzzed.outboxBytes <= Limits.outboxBytes, "the outbox is too large")
        check(fuzzed.outboxBytes === fuzzed.outbox.reduce((sum, one) => sum + one.bytes.length, 0), "wrong bytes of the outbox")
        check(talk.held.length <= Stored.held && talk.heldText <= Stored.heldText, "too much is held")
        check(talk.heldText === talk.held.reduce((sum, one) => sum + heldSize(one), 0), "wrong size of what is held")
        check(talk.seen.size <= Stored.seen && talk.kept.size <= Stored.kept, "too much is stored")
        check(talk.members.size <= Stored.members && talk.firsts.size <= Stored.members, "too many members are stored")
        if (!fuzzed.isOpen) {
            fuzzed.stayOffline()
            fuzzed = fresh()
        }
        if (round % 500 === 0) await new Promise(done => setTimeout(done, 0))
    }
    fuzzed.stayOffline()
    removeEventListener("error", onError)
    window.WebSocket = original
    return failures.length === 0 ? "ok" : failures.join("; ")
}
