import TransportAPI

// The opening handshake, read as it arrives. What follows the head in the input stays there for the frame reader.
extension WebSocketCore {
    mutating func readHandshake(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        let isOpen = role == .client ? try readResponse(&input) : try readRequest(&input, &context)
        guard isOpen else { return nil }
        phase = .open
        phaseDeadline = nil
        return .opened
    }

    private mutating func readResponse(_ input: inout ByteBuffer) throws(TransportError) -> Bool {
        do throws(TransportError) {
            while let response = try readResponseHead(&input) {
                redirection = configuration.redirects > 0 ? try ClientHandshake.redirection(response) : nil
                let answer = try ClientHandshake.verify(response, key: key, configuration)
                if case .accepted(let chosen, let agreement) = answer {
                    subprotocol = chosen
                    compress(agreement)
                    return true
                }
            }
            return false
        } catch {
            throw end(error)
        }
    }

    private mutating func readResponseHead(_ input: inout ByteBuffer) throws(TransportError) -> HTTPHead? {
        do throws(HTTPHeadError) {
            return try head.next(&input)
        } catch {
            throw TransportError(response: error)
        }
    }

    private mutating func readRequest(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> Bool {
        do throws(ServerHandshake.Refusal) {
            guard let head = try readRequestHead(&input) else { return false }
            let accepted = try ServerHandshake.evaluate(head, configuration, isPeerOnLoopback: isPeerOnLoopback)
            ServerHandshake.write(accepted, to: &context.output)
            subprotocol = accepted.subprotocol
            compress(accepted.compression?.agreement)
            return true
        } catch {
            throw refuse(error, &context)
        }
    }

    /// From now on compresses as agreed.
    private mutating func compress(_ agreement: DeflateAgreement?) {
        guard let agreement, let compression = configuration.compression else { return }
        let isClient = role == .client
        deflation = Deflation(compression, isClient ? agreement.client : agreement.server)
        reader.enable(Inflation(compression, isClient ? agreement.server : agreement.client))
    }

    private mutating func readRequestHead(_ input: inout ByteBuffer) throws(ServerHandshake.Refusal) -> HTTPHead? {
        do throws(HTTPHeadError) {
            return try head.next(&input)
        } catch {
            throw ServerHandshake.Refusal(error)
        }
    }

    /// Answers a request with an HTTP error; returns what to throw.
    mutating func refuse(_ refusal: ServerHandshake.Refusal, _ context: inout CoreContext) -> TransportError {
        ServerHandshake.write(refusal, to: &context.output)
        return end(refusal.error)
    }

    /// Ends the link; returns what to throw.
    mutating func end(_ error: TransportError) -> TransportError {
        phase = .ended
        phaseDeadline = nil
        liveness = Liveness()
        dropMessages()
        ending = CloseReason(error)
        return error
    }
}
