import amoeba

auto = amoeba.Progress.FI_PROGRESS_AUTO  # one program plays both sides
with amoeba.open_cluster(["model", "model"], progress=auto) as fabric:
    info = amoeba.Info(ep_attr=amoeba.EpAttr(type=amoeba.EpType.FI_EP_MSG))
    domain, other = fabric.domain(0), fabric.domain(1)
    events: amoeba.EventQueue = fabric.eq_open()
    passive: amoeba.PassiveEndpoint = fabric.passive_ep(info)
    passive.bind(events)
    passive.listen()

    client = other.endpoint(info, cq=other.cq_open(), eq=(answers := fabric.eq_open()))
    client.connect(passive.getname())
    request = events.sread()
    assert isinstance(request.info.handle, amoeba.ConnectionRequest)
    server = domain.endpoint(request.info, cq=domain.cq_open(), eq=events)
    assert isinstance(server, amoeba.ConnectedEndpoint)
    server.accept()
    print(amoeba.EqEvent(answers.sread().event).name, amoeba.EqEvent(events.sread().event).name)
# Prints:
# FI_CONNECTED FI_CONNECTED
