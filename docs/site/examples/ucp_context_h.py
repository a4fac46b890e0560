from amoeba import ucp

with ucp.open_adapters(["model", "model"]) as adapters:
    params = ucp.ucp_params_t(features=ucp.UCP_FEATURE_TAG)
    contexts: list[ucp.ucp_context_h] = [ucp.ucp_init(params, None, adapter=adapter) for adapter in adapters]
    one, other = (ucp.ucp_worker_create(context, ucp.ucp_worker_params_t()) for context in contexts)
    assert isinstance(one, ucp.ucp_worker_h)
    address, _ = ucp.ucp_worker_get_address(other)
    ep: ucp.ucp_ep_h = ucp.ucp_ep_create(one, ucp.ucp_ep_params_t(address=address))

    buffer = bytearray(5)
    receive = ucp.ucp_tag_recv_nbx(other, buffer, 5, 7, 0xFF, ucp.ucp_request_param_t())
    ucp.ucp_tag_send_nbx(ep, b"hello", 5, 7, ucp.ucp_request_param_t())
    while ucp.ucp_request_check_status(receive) is ucp.UcsStatus.UCS_INPROGRESS:
        ucp.ucp_worker_progress(one)
        ucp.ucp_worker_progress(other)
    ucp.ucp_request_free(receive)
    print(bytes(buffer))
# Prints:
# b'hello'
