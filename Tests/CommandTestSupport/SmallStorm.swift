import Workloads

/// A small storm with the proportions of the standard one: the clients need 50 s of the server's time.
package func smallStorm() -> StormModel {
    var model = StormModel()
    model.clients = 500
    model.handshakes = 10
    model.backlog = 5
    return model
}
