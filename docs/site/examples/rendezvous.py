import threading

import amoeba

joined = threading.Event()
port = []


def second() -> None:
    joined.wait()
    with amoeba.Rendezvous.connect("127.0.0.1", port[0]) as meeting:
        meeting.exchange("from the second")


thread = threading.Thread(target=second)
thread.start()
with amoeba.Rendezvous.listen("127.0.0.1", 0, 2, ready=lambda *at: (port.append(at[-1]), joined.set())) as meeting:
    print(meeting.exchange("from the first"))
thread.join()
# Prints:
# ['from the first', 'from the second']
