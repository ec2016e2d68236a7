#if os(Linux)
import Primitives
import CSocketIO
#endif

/// Returns a number for the calling thread. It is not 0, and no other thread has it while this one runs.
@inline(__always)
func currentThread() -> UInt {
    #if canImport(Glibc)
    UInt(pthread_self())
    #else
    UInt(bitPattern: pthread_self())
    #endif
}

/// Starts a detached thread that runs `body`.
package func startThread(_ name: String, _ body: @escaping @Sendable () -> Void) throws(SystemError) {
    final class Box {
        let name: String
        let body: @Sendable () -> Void
        init(name: String, body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }
    let box = Unmanaged.passRetained(Box(name: name, body: body))
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
    defer { pthread_attr_destroy(&attributes) }
    #if canImport(Darwin)
    var thread: pthread_t?
    let result = pthread_create(
        &thread,
        &attributes,
        { argument in
            Unmanaged<Box>.fromOpaque(argument).takeRetainedValue().body()
            return nil
        },
        box.toOpaque()
    )
    #else
    var thread = pthread_t()
    let result = pthread_create(
        &thread,
        &attributes,
        { argument in
            guard let argument else { return nil }
            let box = Unmanaged<Box>.fromOpaque(argument).takeRetainedValue()
            #if os(Linux)
            csocketio_name_thread(box.name)
            #endif
            box.body()
            return nil
        },
        box.toOpaque()
    )
    #endif
    guard result == 0 else {
        box.release()
        throw SystemError("pthread_create", result)
    }
}
