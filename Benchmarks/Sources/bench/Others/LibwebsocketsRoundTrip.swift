import CBench
import CommandSupport
import Foundation

extension Recipe {
    static let webSocketLibwebsockets = Recipe(name: "libwebsockets", workload: .webSocketRoundTrip) { stage in
        guard cbench_websocket_is_there() == 1 else {
            throw Missing(description: "libwebsockets or its headers are not installed (libwebsockets-dev)")
        }
        guard let echo = cbench_websocket_open(Workload.roundTripSize, stage.farCore) else {
            throw SystemFailure("libwebsockets", errno: errno)
        }
        return CRoundTrip(stage, "libwebsockets", end: { cbench_websocket_close(echo) }) {
            cbench_websocket_run(echo, $0, $1.baseAddress, $1.count)
        }
    }
}
