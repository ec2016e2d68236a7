// Shared by the pages: a WebSocket with promises, and the verdict on the console: "VERDICT ok", or the failure.
const parameters = new URLSearchParams(location.search)
const say = verdict => console.log("VERDICT " + verdict)

function expect(isTrue, sentence) {
    if (!isTrue) throw new Error(sentence)
}

function open(path, protocols = []) {
    return new Promise((resolve, reject) => {
        const socket = new WebSocket(`${parameters.get("scheme") ?? "ws"}://127.0.0.1:${parameters.get("port")}${path}`, protocols)
        socket.binaryType = "arraybuffer"
        socket.waiting = []
        socket.messages = []
        socket.onmessage = event => {
            const next = socket.waiting.shift()
            next ? next(event.data) : socket.messages.push(event.data)
        }
        socket.ended = new Promise(end => socket.onclose = end)
        socket.onopen = () => resolve(socket)
        socket.onerror = () => reject(new Error("no connection"))
    })
}

function message(socket) {
    if (socket.messages.length) return Promise.resolve(socket.messages.shift())
    return Promise.race([
        new Promise(resolve => socket.waiting.push(resolve)),
        socket.ended.then(event => { throw new Error(`ended with ${event.code} ${event.reason}`) }),
    ])
}

function sameBytes(one, other) {
    return one.length === other.length && one.every((byte, index) => byte === other[index])
}

function judge(main) {
    setTimeout(() => say("timed out"), 45000)
    main().then(() => say("ok"), error => say(error.message))
}
